// The connection: address, route, queue pair, as librdmacm tells of each. Where a name has several
// addresses, they are tried in turn.

#include <errno.h>
#include <string.h>

#include "base/retries.h"
#include "base/why.h"
#include "format/iscsi_pdu.h"
#include "initiator/iscsi/agent.h"
#include "initiator/iscsi/iscsi.h"

enum { CM_TIMEOUT_MS = 5000, READS_MAX = 128 };

// The target issues all Reads; an initiator none.
static uint8_t reads_granted(struct ibv_context *verbs)
{
    struct ibv_device_attr attr;
    if (ibv_query_device(verbs, &attr) != 0 || attr.max_qp_rd_atom <= 0) {
        return 1;
    }
    return (uint8_t)(attr.max_qp_rd_atom < READS_MAX ? attr.max_qp_rd_atom : READS_MAX);
}

static void say_failed(struct iscsi_initiator *initiator, enum rdma_cm_event_type type, int error)
{
    error = error < 0 ? -error : error;
    switch (type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        why_say(&initiator->why, "no RNIC reaches it: %s", strerror(error));
        break;
    case RDMA_CM_EVENT_REJECTED:
        why_say(&initiator->why,
                "it refuses the connection, or is no RDMA target; over TCP it is iscsi://");
        break;
    default:
        why_say(&initiator->why,
                "nobody answers there as an RDMA target (%s); over TCP it is iscsi://",
                error != 0 ? strerror(error) : rdma_event_str(type));
        break;
    }
}

/* ---- an address ------------------------------------------------------------------------------ */

static void id_destroy(struct iscsi_initiator *initiator)
{
    iscsi_queue_destroy(initiator);
    if (initiator->id != NULL) {
        rdma_destroy_id(initiator->id);
    }
    initiator->id = NULL;
}

// Tries the next address. False: there is none, or none can be tried.
static bool try_next(struct iscsi_initiator *initiator)
{
    for (; initiator->next != NULL; initiator->next = initiator->next->ai_next) {
        id_destroy(initiator);
        if (rdma_create_id(initiator->channel, &initiator->id, initiator, RDMA_PS_TCP) != 0) {
            initiator->id = NULL;
            why_say(&initiator->why, "no RNIC: %s", strerror(errno));
        } else if (rdma_resolve_addr(initiator->id, NULL, initiator->next->ai_addr,
                                     CM_TIMEOUT_MS) != 0) {
            say_failed(initiator, RDMA_CM_EVENT_ADDR_ERROR, errno);
        } else {
            initiator->next = initiator->next->ai_next;
            return true;
        }
    }
    return false;
}

// This address will not do: `why` says so of the last one.
static void on_failure(struct iscsi_initiator *initiator)
{
    struct why why = initiator->why;
    if (!try_next(initiator)) {
        iscsi_lose(initiator, "%s", why.text);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool on_address(struct iscsi_initiator *initiator)
{
    if (rdma_resolve_route(initiator->id, CM_TIMEOUT_MS) != 0) {
        say_failed(initiator, RDMA_CM_EVENT_ROUTE_ERROR, errno);
        return false;
    }
    return true;
}

static bool on_route(struct iscsi_initiator *initiator)
{
    int error = iscsi_queue_create(initiator);
    if (error != 0) {
        why_say(&initiator->why, "no queue pair for one-shot RDMA: %s",
                error == -EOPNOTSUPP ? "this RNIC has none; use iscsi://" : strerror(-error));
        return false;
    }
    struct rdma_conn_param param = {.responder_resources = reads_granted(initiator->id->verbs),
                                    .retry_count = RETRIES_MAX,
                                    .rnr_retry_count = RETRIES_MAX};
    if (rdma_connect(initiator->id, &param) != 0) {
        say_failed(initiator, RDMA_CM_EVENT_CONNECT_ERROR, errno);
        return false;
    }
    return true;
}

// Where the STag travels in the Send's header, the PDU is all that the Send has.
static bool on_established(struct iscsi_initiator *initiator)
{
    int agreed = initiator->oneshot.agreed(initiator->id->qp);
    bool has_header = agreed > 0 && (agreed & WEFT_ONESHOT_ADVERTISE) != 0;
    initiator->command_len = has_header ? ISCSI_HEADER_LEN : COMMAND_LEN;
    initiator->session.login_rounds = 0;
    if (iscsi_queue_login(initiator) != 0) {
        why_say(&initiator->why, "the login could not be sent");
        return false;
    }
    return true;
}

static bool on_event(struct iscsi_initiator *initiator, enum rdma_cm_event_type type, int status)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return on_address(initiator);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return on_route(initiator);
    case RDMA_CM_EVENT_ESTABLISHED:
        return on_established(initiator);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return true;
    default:
        say_failed(initiator, type, status);
        return false;
    }
}

// What came before the end is taken before it.
static void on_disconnected(struct iscsi_initiator *initiator)
{
    while (initiator->state != ISCSI_INITIATOR_LOST && iscsi_queue_poll(initiator) > 0) {
    }
    iscsi_lose(initiator, "the target has ended the connection");
}

void iscsi_connect_events(struct iscsi_initiator *initiator)
{
    struct rdma_cm_event *event;
    while (initiator->state != ISCSI_INITIATOR_LOST &&
           rdma_get_cm_event(initiator->channel, &event) == 0) {
        enum rdma_cm_event_type type = event->event;
        int status = event->status;
        bool is_ours = event->id == initiator->id;
        rdma_ack_cm_event(event);
        if (!is_ours) {
            continue;
        }
        if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            on_disconnected(initiator);
        } else if (!on_event(initiator, type, status)) {
            on_failure(initiator);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int iscsi_connect_begin(struct iscsi_initiator *initiator, struct why *ret_why)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(initiator->host, initiator->port, &hints, &initiator->found);
    if (error != 0) {
        initiator->found = NULL;
        why_say(ret_why, "%s", gai_strerror(error));
        return -EADDRNOTAVAIL;
    }
    initiator->next = initiator->found;
    initiator->channel = rdma_create_event_channel();
    if (initiator->channel == NULL || !iscsi_watch(initiator, initiator->channel->fd)) {
        why_say(ret_why, "no RNIC: %s", strerror(errno));
        return -ENODEV;
    }
    if (!try_next(initiator)) {
        *ret_why = initiator->why;
        return -ENODEV;
    }
    return 0;
}

void iscsi_connect_end(struct iscsi_initiator *initiator)
{
    id_destroy(initiator);
    if (initiator->channel != NULL) {
        rdma_destroy_event_channel(initiator->channel);
    }
    if (initiator->found != NULL) {
        freeaddrinfo(initiator->found);
    }
}
