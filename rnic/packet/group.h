// Multicast groups of queue pairs that packets carry: one membership each.
#pragma once

#include <netinet/in.h>

#include "base/list.h"

struct rnic;
struct rnic_qp;

struct packet_membership {
    struct list_link link; // in packet_side.members
    struct rnic_qp *qp;
    struct in6_addr group;
};

// Lock held; as rnic_qp_attach and rnic_qp_detach, of a transport that takes groups.
int packet_group_attach(struct rnic_qp *qp, const struct in6_addr *group);
int packet_group_detach(struct rnic_qp *qp, const struct in6_addr *group);
// The port's addresses are about to be others, and are: the groups are let go of, and joined where
// they are then. Lock held.
void packet_groups_leave(struct rnic *rnic);
void packet_groups_join(struct rnic *rnic);
// It is about to be destroyed.
void packet_group_forget(struct rnic_qp *qp);
