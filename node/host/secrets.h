// The file that says who may log in by iSCSI, and with which secret:
//
//     [initiator LABEL]             any number of these
//     name = backup                 what the initiator calls itself in its proof
//     secret = ...                  12 to 127 octets
//     initiator = iqn.2026-11.a:b   its initiator name; if not said, any
//
//     [target]                      for initiators that want a proof of the target, too
//     name = node
//     secret = ...                  none of the initiators'
//
// It belongs to who runs the node, or to root, and is nobody else's to read.
#pragma once

#include "base/why.h"
#include "node/iscsi/accounts.h"

// No path, no secrets: `ret` stays as it is, which is no error. 0, or a negative errno with the
// reason in `ret_why`, and nothing in `ret` has changed.
int secrets_read(const char *path, struct iscsi_accounts *ret, struct why *ret_why);
