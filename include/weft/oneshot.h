// One-shot RDMA: one call registers memory, allots its STag and sends the message that advertises
// it; the one Send that answers closes the STag and frees what it held. weft-oneshot(3) has it at
// length, docs/one-shot.md the messages.
//
//   initiator                                        target
//   weft_oneshot_post ─────── Send, STag ──────────▶ completion: message, STag, reference
//                     ◀────── RDMA Write or Read ─── ibv_post_send, offset 0: the first octet
//   completion        ◀────── Send, closes STag ──── weft_oneshot_close
//   (message, STag, reference; the memory is detached)
//
// The functions work on queue pairs and completions of weft's own libibverbs.so.1, which exports
// them. A program that may run on another RNIC looks for them with weft_oneshot_find().
//
// Both ends call weft_oneshot_create once for a connection's queue pair. Whether the STag travels
// in the Send's header is agreed when the connection starts; towards a peer that has no such thing
// it stands in the message, and Send with Invalidate closes: the calls are the same.
//
// Unless it says otherwise a function returns 0 or a positive errno, as those of libibverbs do, and
// leaves it in errno too: EINVAL for what can never be right, EIO in the child of a fork. All may
// be called from any thread; none blocks on the peer.
#pragma once

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Where messages have the reference number, an unsigned number of `length` octets (1 to 8), big
// endian unless it says otherwise.
struct weft_oneshot_field {
    uint32_t offset; // of its first octet in the message
    uint8_t length;
    uint8_t flags; // WEFT_ONESHOT_
};

enum {
    WEFT_ONESHOT_LITTLE_ENDIAN = 1,
    WEFT_ONESHOT_PRESENT = 2, // messages have the number already, in a field of their own: it is
                              // compared, not written
};

#define WEFT_ONESHOT_NOWHERE UINT32_MAX

struct weft_oneshot_attr {
    uint32_t comp_mask;                // 0
    uint32_t max_commands;             // outstanding at a time, 1 to 65536
    uint32_t max_memory;               // elements of the scatter list of one command, 1 to 65536
    struct weft_oneshot_field request; // the reference in messages that advertise
    struct weft_oneshot_field answer;  // ... in those that close
    uint32_t stag_offset; // in messages that advertise, where the header does not carry the STag:
                          // four octets, big endian; WEFT_ONESHOT_NOWHERE: there is no place for it
};

// Makes the command table of a queue pair; it goes with the queue pair. EBUSY: there is one.
// ENOMEM. EOPNOTSUPP: it is one of datagrams, or of an unreliable connection.
int weft_oneshot_create(struct ibv_qp *qp, const struct weft_oneshot_attr *attr);

// What the connection agreed on: a set of these, -1 with ENOTCONN while there is none, or, at the
// end that accepted it, until the peer has sent something. On the RoCE device never more than 0.
enum {
    WEFT_ONESHOT_ADVERTISE = 1, // a Send's header advertises
    WEFT_ONESHOT_CLOSE = 2,     // a Send's header closes
};
int weft_oneshot_agreed(struct ibv_qp *qp);

struct weft_oneshot_wr {
    struct weft_oneshot_wr *next; // NULL: the last one
    uint64_t wr_id;               // of the Send: its completion comes if it fails, or is signalled
    unsigned int send_flags;      // IBV_SEND_FENCE, _SIGNALED, _SOLICITED, _INLINE; most want none
    unsigned int access;          // IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, or both
    uint64_t reference;           // must fit both fields
    const struct iovec *memory;   // the scatter list; need not be registered
    uint32_t memory_count;
    uint32_t stag;           // out: what the list is advertised with
    uint64_t offset, length; // the part of it that the peer may reach; length 0: all behind offset
    struct ibv_sge body;     // the message, pre-formatted; with IBV_SEND_INLINE it is copied and
                             // needs no lkey. What the call writes into it: the reference unless
                             // WEFT_ONESHOT_PRESENT, the STag if it travels there. Inline, it is
                             // the copy that is written to
    struct ibv_recv_wr *answer; // receives that are posted with it; NULL: none
};

// Opens the memory to the peer, enters reference and STag into the command table, and sends the
// message. The memory must stay until the STag is closed or revoked, or the connection has ended:
// when that is told (a flushed completion, an event) all is detached.
//
// Of a list, those up to the first that is wrong are posted: *bad_wr is that one.
//
// ENOTCONN: see weft_oneshot_agreed. ENOMEM: the send queue or the command table is full. EFAULT:
// memory that is not mapped, or not writable for a peer that is to write, by what the kernel said
// within the last millisecond of the mapping that it lies in. EOPNOTSUPP: the STag has to travel in
// the message, and stag_offset is WEFT_ONESHOT_NOWHERE. What ibv_post_recv says of `answer`; then
// nothing has been sent, but receives before the bad one are posted.
int weft_oneshot_post(struct ibv_qp *qp, struct weft_oneshot_wr *wr,
                      struct weft_oneshot_wr **bad_wr);

struct weft_oneshot_close_wr {
    struct weft_oneshot_close_wr *next;
    uint64_t wr_id;
    unsigned int send_flags;    // as above; the Send is signalled only if it says so
    uint32_t stag;              // as it was advertised
    uint64_t reference;         // of the command that is answered
    struct ibv_sge body;        // the answer, as above
    struct ibv_send_wr *before; // work requests that go in front of it: the RDMA Writes that it
                                // tells of; NULL: none
};

// Answers commands and closes their STags; with what goes before, each is posted whole or not at
// all. The peer checks STag against reference: a pair that it did not advertise, or that is closed
// already, ends the connection. ENOTCONN, ENOMEM as above.
int weft_oneshot_close(struct ibv_qp *qp, struct weft_oneshot_close_wr *wr,
                       struct weft_oneshot_close_wr **bad_wr);

// Among the send_flags of a work request IBV_WR_SEND_WITH_INV: where the connection agreed on
// WEFT_ONESHOT_CLOSE it leaves as a Send whose header closes, as weft_oneshot_close() has it, else
// as it is. For answers that others post, in a chain with their Writes. With any other work request
// it is an error; other RNICs do not know it.
enum { WEFT_ONESHOT_CLOSES = 1 << 17 };

// Takes back what the peer answered without closing: the memory is detached when this returns. A
// peer that uses the STag still ends the connection. EINVAL: not an open STag of this queue pair.
int weft_oneshot_revoke(struct ibv_qp *qp, uint32_t stag);

// What a successful receive completion says besides, as ibv_poll_cq() gave it.
bool weft_wc_advertised(const struct ibv_wc *wc, uint32_t *ret_stag); // the peer's header does
bool weft_wc_closed(const struct ibv_wc *wc, uint32_t *ret_stag);     // ours; the memory is free
bool weft_wc_reference(const struct ibv_wc *wc, uint64_t *ret_reference);
// The entry that is being read of an extended CQ, for the functions above.
int weft_cq_ex_read_wc(struct ibv_cq_ex *cq, struct ibv_wc *ret);

// STag and reference of a command that has arrived, wherever the connection has them: `message` is
// where the receive put it. ENOENT: the message advertises nothing. Where the STag travels in the
// message, only the program knows which messages are commands.
int weft_oneshot_request(struct ibv_qp *qp, const struct ibv_wc *wc, const void *message,
                         uint32_t *ret_stag, uint64_t *ret_reference);

/* ---- at run time ----------------------------------------------------------------------------- */

struct weft_oneshot_calls {
    __typeof__(&weft_oneshot_create) create;
    __typeof__(&weft_oneshot_agreed) agreed;
    __typeof__(&weft_oneshot_post) post;
    __typeof__(&weft_oneshot_close) close;
    __typeof__(&weft_oneshot_revoke) revoke;
    __typeof__(&weft_oneshot_request) request;
    __typeof__(&weft_wc_advertised) wc_advertised;
    __typeof__(&weft_wc_closed) wc_closed;
    __typeof__(&weft_wc_reference) wc_reference;
    __typeof__(&weft_cq_ex_read_wc) cq_ex_read_wc;
};

// Fills `ret` if the process runs on weft's verbs; false: on another RNIC's. Needs no library at
// link time.
static inline bool weft_oneshot_find(struct weft_oneshot_calls *ret)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    const struct {
        void *call;
        const char *name;
    } calls[] = {
        {&ret->create, "weft_oneshot_create"},       {&ret->agreed, "weft_oneshot_agreed"},
        {&ret->post, "weft_oneshot_post"},           {&ret->close, "weft_oneshot_close"},
        {&ret->revoke, "weft_oneshot_revoke"},       {&ret->request, "weft_oneshot_request"},
        {&ret->wc_advertised, "weft_wc_advertised"}, {&ret->wc_closed, "weft_wc_closed"},
        {&ret->wc_reference, "weft_wc_reference"},   {&ret->cq_ex_read_wc, "weft_cq_ex_read_wc"},
    };
    for (unsigned int i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        *(void **)calls[i].call = program != NULL ? dlsym(program, calls[i].name) : NULL;
        if (*(void **)calls[i].call == NULL) {
            return false;
        }
    }
    return true;
}

#ifdef __cplusplus
}
#endif
