#include "initiator/iscsi/iscsi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "clock/clock.h"
#include "descriptor/descriptor.h"
#include "format/iscsi_pdu.h"
#include "initiator/iscsi/agent.h"
#include "initiator/iscsi/session.h"

enum {
    READY_COUNT = 4,
    LOGOUT_TURN_MS = 50,
    POLL_PASSES_MAX = 64,       // of one poll: a target that never ceases
    POLL_COMPLETIONS_MAX = 128, // does not keep who calls it from all else
};

static const duration_ns logout_for_ns = 2 * NS_PER_S;

/* ---- life ------------------------------------------------------------------------------------ */

static bool text_set(char *to, size_t capacity, const char *text)
{
    int len = snprintf(to, capacity, "%s", text);
    return len > 0 && (size_t)len < capacity;
}

// The target proves itself to who does so too.
static bool target_proof_set(struct proof *proof, const struct iscsi_initiator_attr *attr)
{
    if (attr->target_user == NULL) {
        return true;
    }
    return attr->user != NULL &&
           text_set(proof->target_name, sizeof proof->target_name, attr->target_user) &&
           text_set(proof->target_secret, sizeof proof->target_secret, attr->target_secret) &&
           getrandom(&proof->asked_identifier, 1, 0) == 1 &&
           getrandom(proof->asked, sizeof proof->asked, 0) == sizeof proof->asked;
}

static bool proof_set(struct proof *proof, const struct iscsi_initiator_attr *attr)
{
    bool is_set =
        attr->user == NULL || (text_set(proof->name, sizeof proof->name, attr->user) &&
                               text_set(proof->secret, sizeof proof->secret, attr->secret));
    return is_set && target_proof_set(proof, attr);
}

static int attr_take(struct iscsi_initiator *initiator, const struct iscsi_initiator_attr *attr,
                     struct why *ret_why)
{
    struct iscsi_session *session = &initiator->session;
    if (attr->depth == 0 || attr->depth > ISCSI_INITIATOR_DEPTH_MAX ||
        !text_set(initiator->host, sizeof initiator->host, attr->host) ||
        !text_set(initiator->port, sizeof initiator->port, attr->port) ||
        !text_set(session->target, sizeof session->target, attr->target) ||
        !text_set(session->initiator, sizeof session->initiator, attr->name) ||
        !proof_set(&session->proof, attr)) {
        why_say(ret_why, "a name is too long, or missing");
        return -EINVAL;
    }
    memcpy(session->isid, attr->isid, sizeof session->isid);
    session->lun = attr->lun;
    session->cmdsn = session->expstatsn = 1;
    initiator->depth = attr->depth;
    initiator->room_count = attr->depth + SPARE_RECEIVES;
    return 0;
}

static int slots_take(struct iscsi_initiator *initiator)
{
    initiator->slots = calloc(initiator->depth, sizeof *initiator->slots);
    initiator->free_rooms = calloc(initiator->room_count, sizeof *initiator->free_rooms);
    if (initiator->slots == NULL || initiator->free_rooms == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < initiator->depth; i++) {
        initiator->slots[i].tag = i;
        list_push_tail(&initiator->free, &initiator->slots[i].link);
    }
    for (unsigned i = 0; i < initiator->room_count; i++) {
        initiator->free_rooms[initiator->free_room_count++] = (uint16_t)i;
    }
    return 0;
}

struct iscsi_initiator *iscsi_initiator_begin(const struct iscsi_initiator_attr *attr,
                                              struct why *ret_why)
{
    struct iscsi_initiator *initiator = calloc(1, sizeof *initiator);
    why_say(ret_why, "no memory, or no descriptors");
    if (initiator == NULL) {
        return NULL;
    }
    list_init(&initiator->free);
    initiator->drive_fd = -1;
    initiator->epoll_fd = descriptor_above_standard(epoll_create1(EPOLL_CLOEXEC));
    initiator->rest_fd = descriptor_above_standard(eventfd(0, EFD_CLOEXEC));
    if (initiator->epoll_fd < 0 || initiator->rest_fd < 0 ||
        !iscsi_watch(initiator, initiator->rest_fd) || attr_take(initiator, attr, ret_why) != 0 ||
        slots_take(initiator) != 0 || iscsi_connect_begin(initiator, ret_why) != 0) {
        iscsi_initiator_end(initiator);
        return NULL;
    }
    return initiator;
}

void iscsi_initiator_end(struct iscsi_initiator *initiator)
{
    if (initiator->drive_fd >= 0) {
        initiator->drive.end(initiator->completions);
    }
    iscsi_connect_end(initiator);
    if (initiator->rest_fd >= 0) {
        close(initiator->rest_fd);
    }
    if (initiator->epoll_fd >= 0) {
        close(initiator->epoll_fd);
    }
    free(initiator->slots);
    free(initiator->free_rooms);
    free(initiator);
}

/* ---- progress -------------------------------------------------------------------------------- */

// From here on who waits for the initiator is woken by the RNIC itself, not by its thread. Where it
// cannot be so, that does it.
static void drive_begin(struct iscsi_initiator *initiator)
{
    if (weft_drive_find(&initiator->drive)) {
        initiator->drive_fd = initiator->drive.begin(initiator->completions);
    }
    if (initiator->drive_fd >= 0 && !iscsi_watch(initiator, initiator->drive_fd)) {
        initiator->drive.end(initiator->completions);
        initiator->drive_fd = -1;
    }
}

static void on_cq_event(struct iscsi_initiator *initiator)
{
    struct ibv_cq *cq;
    void *context;
    while (ibv_get_cq_event(initiator->completions, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        initiator->is_armed = false;
    }
}

// What has come at the RNIC is done here and now.
static void drive(struct iscsi_initiator *initiator)
{
    struct ibv_cq *cq;
    void *context;
    initiator->drive.pass(initiator->completions);
    while (initiator->drive.event(initiator->completions, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        initiator->is_armed = false;
    }
}

static void look(struct iscsi_initiator *initiator)
{
    struct epoll_event events[READY_COUNT];
    int count = epoll_wait(initiator->epoll_fd, events, READY_COUNT, 0);
    for (int i = 0; i < count && initiator->state != ISCSI_INITIATOR_LOST; i++) {
        if (events[i].data.fd == initiator->drive_fd) {
            drive(initiator);
        } else if (events[i].data.fd == initiator->rest_fd) {
            eventfd_t rest;
            eventfd_read(initiator->rest_fd, &rest);
        } else if (events[i].data.fd == initiator->channel->fd) {
            iscsi_connect_events(initiator);
        } else if (initiator->completions != NULL) {
            on_cq_event(initiator);
        }
    }
}

// Whether there is nothing to do until a descriptor says so.
static bool may_wait(struct iscsi_initiator *initiator)
{
    if (!initiator->is_armed) {
        initiator->is_armed = ibv_req_notify_cq(initiator->cq, 0) == 0;
        if (!initiator->is_armed) {
            iscsi_lose(initiator, "the completion queue cannot be armed");
        }
        return false;
    }
    if (initiator->drive_fd < 0 || initiator->drive.may_wait(initiator->completions) != 0) {
        return true;
    }
    drive(initiator);
    return false;
}

// All that have come, or so many; then it is asked again for the rest.
static void completions_take(struct iscsi_initiator *initiator)
{
    unsigned passes = 0, taken = 0;
    while (initiator->state != ISCSI_INITIATOR_LOST && initiator->cq != NULL) {
        if (passes++ == POLL_PASSES_MAX || taken >= POLL_COMPLETIONS_MAX) {
            eventfd_write(initiator->rest_fd, 1);
            return;
        }
        unsigned count = iscsi_queue_poll(initiator);
        taken += count;
        if (count == 0 && may_wait(initiator)) {
            return;
        }
    }
}

enum iscsi_initiator_state iscsi_initiator_poll(struct iscsi_initiator *initiator, bool looks)
{
    bool was_ready = initiator->state == ISCSI_INITIATOR_READY;
    if (looks && initiator->state != ISCSI_INITIATOR_LOST) {
        look(initiator);
    }
    completions_take(initiator);
    if (!was_ready && initiator->state == ISCSI_INITIATOR_READY) {
        drive_begin(initiator);
    }
    return initiator->state;
}

void iscsi_initiator_log_out(struct iscsi_initiator *initiator)
{
    uint8_t pdu[ISCSI_HEADER_LEN];
    iscsi_session_logout_emit(&initiator->session, pdu, TAG_LOGOUT);
    initiator->is_logged_out = true;
    if (initiator->state != ISCSI_INITIATOR_READY || iscsi_queue_send(initiator, pdu) != 0) {
        return;
    }
    instant_ns until = instant_after(clock_now(), logout_for_ns);
    while (iscsi_initiator_poll(initiator, true) != ISCSI_INITIATOR_LOST && clock_now() < until) {
        struct pollfd ready = {.fd = initiator->epoll_fd, .events = POLLIN};
        poll(&ready, 1, LOGOUT_TURN_MS);
    }
}

int iscsi_initiator_reset(struct iscsi_initiator *initiator,
                          void (*on_end)(void *context, uint8_t response), void *context)
{
    uint8_t pdu[ISCSI_HEADER_LEN];
    if (initiator->state != ISCSI_INITIATOR_READY || initiator->on_reset != NULL) {
        return -ENOTCONN;
    }
    iscsi_session_reset_emit(&initiator->session, pdu, TAG_RESET);
    int error = iscsi_queue_send(initiator, pdu);
    if (error == 0) {
        initiator->on_reset = on_end;
        initiator->reset_context = context;
    }
    return error;
}

/* ---- what is known --------------------------------------------------------------------------- */

int iscsi_initiator_fd(const struct iscsi_initiator *initiator)
{
    return initiator->epoll_fd;
}

enum iscsi_initiator_state iscsi_initiator_state(const struct iscsi_initiator *initiator)
{
    return initiator->state;
}

const char *iscsi_initiator_why(const struct iscsi_initiator *initiator)
{
    return initiator->why.text;
}

const struct iscsi_initiator_counters *iscsi_initiator_counters(
    const struct iscsi_initiator *initiator)
{
    return &initiator->counters;
}
