// The inside of the initiator, for its files. They call downwards: iscsi.c, connect.c, queue.c.
#pragma once

#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/drive.h>
#include <weft/oneshot.h>

#include "base/list.h"
#include "base/why.h"
#include "format/iscsi_pdu.h"
#include "initiator/iscsi/iscsi.h"
#include "initiator/iscsi/session.h"

enum {
    SPARE_RECEIVES = 8, // for what answers no command: pings, messages, rejects
    ROOM_LEN = ISCSI_HEADER_LEN + ISCSI_TAKES_MAX,
    LOGIN_LEN = ISCSI_HEADER_LEN + ISCSI_LOGIN_TAKES_MAX,
    STAG_LEN = 4, // behind a command, where the Send's header has no place for it
    COMMAND_LEN = ISCSI_HEADER_LEN + STAG_LEN,
    TAG_INDEX_BITS = 8, // of a slot; the rest of a tag is its generation
    TAG_LOGIN = 0,
    TAG_RESET = 0x40000001, // of no slot
    TAG_LOGOUT = 0x40000002,
};

// A command at the target.
struct iscsi_slot {
    struct iscsi_request *request; // NULL: free
    uint32_t tag, stag;
    bool is_lent;
    struct list_link link; // free
};

struct iscsi_initiator {
    struct iscsi_session session;
    struct iscsi_initiator_counters counters;
    enum iscsi_initiator_state state;
    struct why why;
    char host[256], port[16];

    int epoll_fd; // the channels' descriptors, and the RNIC's while it is driven from here
    int drive_fd; // -1: the RNIC's own thread drives it
    int rest_fd;  // readable when a poll has left something for the next
    struct weft_drive_calls drive;
    struct addrinfo *found, *next; // addresses: all, and what is tried when this one fails
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    bool is_connecting; // rdma_connect has been called

    struct ibv_pd *pd;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct ibv_mr *mr; // of memory
    bool is_armed;
    struct weft_oneshot_calls oneshot;
    uint32_t command_len; // with the place of the STag, or without

    unsigned depth;
    uint8_t *memory;      // what login says and hears, then rooms for PDUs that come
    uint16_t *free_rooms; // that no posted receive has: a stack
    unsigned room_count, free_room_count;
    unsigned unsignalled; // Sends since the last one whose completion was asked for
    struct list_link free;
    struct iscsi_slot *slots;

    bool is_logged_out;
    void (*on_reset)(void *context, uint8_t response);
    void *reset_context;
};

/* ---- connect.c ------------------------------------------------------------------------------- */

int iscsi_connect_begin(struct iscsi_initiator *initiator, struct why *ret_why);
// Takes the connection's events.
void iscsi_connect_events(struct iscsi_initiator *initiator);
void iscsi_connect_end(struct iscsi_initiator *initiator);

/* ---- queue.c --------------------------------------------------------------------------------- */

// The next one in the epoll set, not to be waited in.
bool iscsi_watch(const struct iscsi_initiator *initiator, int fd);
// The connection is of no more use: nobody reaches the memory of requests, and the first reason
// counts.
void iscsi_lose(struct iscsi_initiator *initiator, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The queue pair on initiator->id. 0 or a negative errno.
int iscsi_queue_create(struct iscsi_initiator *initiator);
void iscsi_queue_end(struct iscsi_initiator *initiator); // nothing reaches memory any more
void iscsi_queue_destroy(struct iscsi_initiator *initiator);
// The first word of the session.
int iscsi_queue_login(struct iscsi_initiator *initiator);
// A PDU without data, that lends nothing.
int iscsi_queue_send(struct iscsi_initiator *initiator, const uint8_t *pdu);
// Takes completions; how many there were.
unsigned iscsi_queue_poll(struct iscsi_initiator *initiator);
