// The points of a device (meet/point.h): each with the endpoint that has its port. Lock held.
#pragma once

#include "base/list.h"
#include "meet/point.h"

struct rnic;
struct rnic_ep;

struct point {
    struct list_link link; // in rnic->points
    struct rnic_ep *ep;    // bound, or listening
    struct meeting_point numbers;
};

// A number that no queue pair of the device has, and its point; NULL: no port is to be had. The
// caller fills the number's slot in rnic->qps.
struct point *point_take(struct rnic *rnic, uint32_t *ret_qp_num);
void point_release(struct point *point); // NULL: harmless

// Lets others connect to it. Harmless when it listens already. What listen says.
int point_listen(struct point *point);
