// One-shot RDMA: the command table. A command is a scatter list of the program's,
// an STag for it and the program's reference number. One post opens the list to the peer and
// advertises it in a Send; the Send that answers closes it, by STag and reference, before the
// program sees it.
//
//   program side   wq_oneshot_slot, _commit             lock-free against the engine
//   engine side    everything else                      serialised with the queue pair
//
// STags are allotted ahead: a free command has the one that it will be advertised with, and another
// one each time. So a post needs no lock of the engine's, and knows its STag at once.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/time.h"
#include "mem/table.h"

struct wq;
struct send_wqe;

enum {
    ONESHOT_COMMAND_MAX = 65536, // commands of one queue pair
    ONESHOT_ELEMENT_MAX = 65536, // elements of one scatter list
    ONESHOT_REFERENCE_LEN_MAX = 8,
};

// Where messages have the reference: an unsigned number of `len` octets (1 to 8) at `offset`.
struct oneshot_field {
    uint32_t offset;
    uint8_t len;
    bool is_little_endian;
};

struct oneshot_config {
    uint32_t command_max;                 // outstanding at a time, at least 1
    uint32_t element_max;                 // of one scatter list, at least 1
    struct oneshot_field request, answer; // in messages that advertise, in those that close
};

// The program fills all but `stag`.
struct oneshot_command {
    uint32_t stag;
    uint32_t access;         // MEM_ACCESS_REMOTE_READ, MEM_ACCESS_REMOTE_WRITE, both
    uint64_t reference;      // fits both fields
    uint64_t offset, length; // the part of the list that the peer may reach, its tagged offset 0 on
    struct mem_list list;    // its elements are the command's own: config.element_max
    bool is_open;            // engine's: advertised and not closed
};

// Makes the table: memory and STags. -EBUSY: there is one; -EINVAL: a number out of range;
// -ENOMEM, -ENOSPC. A queue pair without one still receives advertised STags.
int wq_oneshot_create(struct wq *wq, const struct oneshot_config *config);
// NULL before wq_oneshot_create, then the same while the queue pair lives.
const struct oneshot_config *wq_oneshot_config(const struct wq *wq);

// What earlier posts have found out about memory, if that is not long ago: for mem_oneshot_probe.
struct mem_known *wq_oneshot_known(struct wq *wq, instant_ns now);
// A free command to fill in, or NULL: all are outstanding. The same until wq_oneshot_commit.
struct oneshot_command *wq_oneshot_slot(struct wq *wq);
// The command belongs to this work request, a Send; its slot is committed next.
void wq_oneshot_commit(struct wq *wq, struct send_wqe *wqe);

// Takes a region back that the peer did not close: the memory is detached at once. -EINVAL: not an
// open region of this queue pair.
int wq_oneshot_revoke(struct wq *wq, uint32_t stag);

// The reference in a whole message; false: it is too short for it.
WEFT_EXPORT bool oneshot_field_read(const struct oneshot_field *field, const uint8_t *message,
                                    size_t message_len, uint64_t *ret_reference);
WEFT_EXPORT void oneshot_field_write(const struct oneshot_field *field, uint8_t *message,
                                     uint64_t reference);
// The number in the octets of the field itself.
uint64_t oneshot_field_number(const struct oneshot_field *field, const uint8_t *octets);

/* ---- for a transport ------------------------------------------------------------------------- */

// A Send that advertises starts: the region of its command is open from here on.
const struct oneshot_command *oneshot_open(struct wq *wq, struct send_wqe *wqe);
// The open region with this STag.
enum mem_verdict oneshot_find(struct wq *wq, uint32_t stag, struct oneshot_command **ret);
// The peer has closed it: it is counted and traced.
void oneshot_close_by_peer(struct wq *wq, struct oneshot_command *command);
void oneshot_detach_all(struct wq *wq);

/* ---- for the other files of this room -------------------------------------------------------- */

// The work request leaves the queue; what it did not open is free again. `has_begun`: its progress
// holds.
void oneshot_wqe_ended(struct wq *wq, const struct send_wqe *wqe, bool has_begun);
void oneshot_fini(struct wq *wq);
bool oneshot_check(const struct wq *wq);
