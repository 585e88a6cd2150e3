// The device driver modules there are, and the URIs that name them:
//
//     [FILTER+]... DRIVER : OBJECT [ ? KEY=VALUE [ & KEY=VALUE ]... ]
//
//     file:/srv/disk.img              ram:1G              null:1T
//     delay+file:disk.img?delay.write=10ms&direct=on
//
// The filter named first stands before all others. A % and two hexadecimal digits stand for an
// octet, in the object and in values. Parameters that no DDM of the chain knows are refused.
#pragma once

#include "node/interface/rta_ddm.h"

// All drivers and filters, ended by NULL.
const struct ddm_driver *const *ddm_registry(void);

// Opens the chain: rta_parts.ddm_open. 0 or a negative errno with the reason in `ret_why`.
int ddm_registry_open(const char *uri, const struct ddm_host *host, struct ddm **ret,
                      struct why *ret_why);

// The same in the host's own process: drivers that need one of their own are refused.
int ddm_registry_open_in_host(const char *uri, const struct ddm_host *host, struct ddm **ret,
                              struct why *ret_why);

// Is the scheme of the URI that of a driver, and are its filters filters? Opens nothing. False with
// the reason in `ret_why`.
bool ddm_registry_knows(const char *uri, struct why *ret_why);

// The same, and can its device be waited for while another node has it?
bool ddm_registry_can_stand_by(const char *uri, struct why *ret_why);
