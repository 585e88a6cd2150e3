// Names of events.

#include "cm/cm.h"

#define NAME(event) [event] = #event

static const char *const event_names[] = {
    NAME(RDMA_CM_EVENT_ADDR_RESOLVED),
    NAME(RDMA_CM_EVENT_ADDR_ERROR),
    NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
    NAME(RDMA_CM_EVENT_ROUTE_ERROR),
    NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
    NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
    NAME(RDMA_CM_EVENT_CONNECT_ERROR),
    NAME(RDMA_CM_EVENT_UNREACHABLE),
    NAME(RDMA_CM_EVENT_REJECTED),
    NAME(RDMA_CM_EVENT_ESTABLISHED),
    NAME(RDMA_CM_EVENT_DISCONNECTED),
    NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
    NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
    NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
    NAME(RDMA_CM_EVENT_ADDR_CHANGE),
    NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
    [CM_EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    [CM_EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
    [CM_EVENT_USER] = "RDMA_CM_EVENT_USER",
};

const char *rdma_event_str(enum rdma_cm_event_type event)
{
    unsigned index = (unsigned)event;
    bool is_known = index < sizeof event_names / sizeof event_names[0];
    return is_known ? event_names[index] : "UNKNOWN EVENT";
}
