// The STag table: who may touch which memory. It holds protection domains, memory regions, memory
// windows, one-shot regions and the ephemeral sinks of RDMA Reads, and answers every question with
// a verdict. It moves no data and knows no protocol.
//
// Threads: none. The caller serialises all calls on one table.
// Memory: taken at creation and, in chunks, when objects are registered, allocated or reserved.
// Resolving, binding, invalidating, opening and closing allocate nothing.
//
// The order of the checks is fixed and the first that fails is the verdict: STag, protection
// domain, queue pair, access, wrap, bounds.
//
//     creation      mem_table_create, _limit, _destroy, _check, _live, _verdict_count
//     showing       mem_table_show, _hide (processes of the same host)
//     domains       mem_pd_alloc, _dealloc, _hold, _release (pd.c)
//     regions       mem_region_register, _reregister, _deregister (region.c)
//     windows       mem_window_alloc, _bind, _dealloc, mem_windows_release_qp (window.c)
//     invalidation  mem_invalidate, mem_note_early, mem_early_end
//     resolving     mem_resolve (peers), mem_resolve_sge (the local consumer), mem_table_version,
//                   mem_is_relaxed (resolve.c)
//     one-shot      mem_oneshot_alloc, _probe, _open, _find, _close, _free, mem_is_oneshot
//                   (oneshot.c)
//     sinks         mem_sinks_reserve, mem_sink_open, _close, mem_resolve_sink (read responses;
//                   sink.c)
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key_mirror.h"
#include "base/sge.h"
#include "base/span.h"
#include "mem/stag.h"
#include "mem/verdict.h"

// Access rights, equal to IBV_ACCESS_*. Local reading is always granted.
enum mem_access {
    MEM_ACCESS_LOCAL_WRITE = 1 << 0,
    MEM_ACCESS_REMOTE_WRITE = 1 << 1,
    MEM_ACCESS_REMOTE_READ = 1 << 2,
    MEM_ACCESS_REMOTE_ATOMIC = 1 << 3,
    MEM_ACCESS_MW_BIND = 1 << 4,    // windows may be bound to the region
    MEM_ACCESS_ZERO_BASED = 1 << 5, // tagged offsets start at 0
    MEM_ACCESS_ALL = (1 << 6) - 1,
    // Of regions alone: memory may come and go while it is registered, and is looked for at each
    // access.
    MEM_ACCESS_ON_DEMAND = 1 << 6,
    // ... and what peers write may be placed in another order than they wrote it
    // (IBV_ACCESS_RELAXED_ORDERING, which is another bit).
    MEM_ACCESS_RELAXED_ORDERING = 1 << 7,
};

enum mem_limits {
    MEM_CAPACITY_MAX = STAG_INDEX_COUNT, // regions + windows + reserved sinks
    MEM_PD_COUNT_MAX = 65535,
};

// Who asks: the protection domain and number of the queue pair on which an operation arrived.
struct mem_asker {
    uint32_t pd;
    uint32_t qp_num;
    uint32_t denied; // MEM_ACCESS_* that it gives nobody, whatever a region allows
};

// Port: is [addr, addr + len) mapped, and writable if asked? 0, or -EFAULT. `*ret_known`, if 0, is
// memory around it of which the same holds now, at least what was asked for. `check` may be NULL.
// It may be called by several threads at a time.
struct mem_probe {
    int (*check)(void *ctx, void *addr, size_t len, bool writable, struct mspan *ret_known);
    void *ctx;
};

struct mem_table;

/* ---- creation -------------------------------------------------------------------------------- */

// `key`: STAG_KEY_LEN random octets. `capacity`: objects at most, 1..MEM_CAPACITY_MAX.
// NULL when there is no memory.
struct mem_table *mem_table_create(const uint8_t key[STAG_KEY_LEN], uint32_t capacity,
                                   struct mem_probe probe);

// How many regions, and windows of both types, there may be; any number, unless this is called.
void mem_table_limit(struct mem_table *table, uint32_t region_max, uint32_t window_max);

// Frees the table with all it holds; NULL is allowed.
void mem_table_destroy(struct mem_table *table);

// Verifies every invariant of the table; costs a walk over all of it. False when one is broken.
bool mem_table_check(const struct mem_table *table);

// Live objects, for "resources back to zero".
struct mem_live {
    uint32_t pds;
    uint32_t regions;
    uint32_t windows;
    uint32_t oneshots; // STags set aside for one-shot regions, open or not
    uint32_t sinks;
};

struct mem_live mem_table_live(const struct mem_table *table);

// How often a question was answered with `verdict` since creation.
uint64_t mem_table_verdict_count(const struct mem_table *table, enum mem_verdict verdict);

/* ---- showing: processes of the same host may write into regions, and read, without asking ---- */

// Port: the key of this generation has been withdrawn from the mirror. Nobody will write by it, but
// somebody may still: whoever has called for that returns to the program when nobody does.
struct mem_revocation {
    void (*begin)(void *ctx, uint64_t generation);
    void *ctx;
};

// From now on regions that are open for remote Writes or Reads are shown in `mirror`, zeroed memory
// that stays as long as the table or until mem_table_hide. Windows, one-shot regions and regions on
// demand are not: they can be taken back, or may be missing, in ways that only this process knows.
// Deregistering and changing a region withdraws it, and begins a revocation if it was open for
// Writes. There is no region yet.
void mem_table_show(struct mem_table *table, struct key_mirror *mirror,
                    struct mem_revocation revocation);
// The mirror is left as it is and no longer touched: it is another process' from now on.
void mem_table_hide(struct mem_table *table);

/* ---- protection domains: numbers from 1 up; 0 names none ------------------------------------- */

// -ENOMEM; -ENOSPC beyond MEM_PD_COUNT_MAX.
int mem_pd_alloc(struct mem_table *table, uint32_t *ret_pd);

// -EINVAL: no such domain; -EBUSY: regions, windows or holders are left in it.
int mem_pd_dealloc(struct mem_table *table, uint32_t pd);

// A queue pair or shared receive queue lives in the domain. -EINVAL: no such domain.
int mem_pd_hold(struct mem_table *table, uint32_t pd);
void mem_pd_release(struct mem_table *table, uint32_t pd);

/* ---- memory regions -------------------------------------------------------------------------- */

// Opens `length` octets at `addr`. Tagged offsets, and the addresses in local scatter/gather
// elements, are numbered from `iova` (the address itself in ibv_reg_mr), or from 0 if
// MEM_ACCESS_ZERO_BASED. The STag is the L_Key and the R_Key. With MEM_ACCESS_ON_DEMAND nothing
// need be mapped: NULL and UINT64_MAX open the whole address space.
// -EINVAL: no such domain; length 0; unknown access bits; remote write or atomic without local
// write; addr or iova + length passes 2^64. -EFAULT from the probe. -ENOMEM: also at the
// limit; -ENOSPC: table full.
int mem_region_register(struct mem_table *table, uint32_t pd, void *addr, uint64_t length,
                        uint64_t iova, uint32_t access, uint32_t *ret_stag);

// Equal to IBV_REREG_MR_CHANGE_*.
enum mem_change {
    MEM_CHANGE_TRANSLATION = 1 << 0,
    MEM_CHANGE_PD = 1 << 1,
    MEM_CHANGE_ACCESS = 1 << 2,
    MEM_CHANGE_ALL = (1 << 3) - 1,
};

struct mem_reregistration {
    uint32_t changes; // enum mem_change; fields that do not change are not read
    uint32_t pd;
    uint32_t access;
    void *addr;
    uint64_t length;
    uint64_t iova;
};

// Changes a region in place. A new translation gets a new STag, since the old one names memory that
// the peer may no longer reach (RFC 5042 section 6.2.2); otherwise the STag stays. On failure the
// region is as before: -EINVAL as above, or no change asked for, or the numbering would change
// (MEM_ACCESS_ZERO_BASED) without a new translation; -EBUSY: windows are bound; -EFAULT.
int mem_region_reregister(struct mem_table *table, uint32_t stag,
                          const struct mem_reregistration *r, uint32_t *ret_stag);

// After return no question is answered with this memory. -EINVAL: not a region; -EBUSY: windows are
// bound to it.
int mem_region_deregister(struct mem_table *table, uint32_t stag);

// Could the domain's own queue pairs use this element of an on-demand region now: `write` into it,
// and with `mapped` at once? MEM_CANNOT_INVALIDATE: no on-demand region.
enum mem_verdict mem_region_prefetch(struct mem_table *table, uint32_t pd, const struct sge *sge,
                                     bool write, bool mapped);

/* ---- memory windows -------------------------------------------------------------------------- */

enum mem_window_type {
    MEM_WINDOW_TYPE_1 = 1, // belongs to a domain; rebound by its owner only
    MEM_WINDOW_TYPE_2 = 2, // type 2B: belongs to a domain and, while bound, to one queue pair
};

// A window that is not bound yet: its STag is refused everywhere, but names it for binding.
// -EINVAL: no such domain or type; -ENOMEM: also at the limit; -ENOSPC.
int mem_window_alloc(struct mem_table *table, enum mem_window_type type, uint32_t pd,
                     uint32_t *ret_stag);

struct mem_binding {
    uint32_t stag;   // the window's STag from now on: its upper 24 bits name the window, the lower
                     // 8 are the consumer's; those of an open window are not taken again
    uint32_t lkey;   // the region
    uint64_t addr;   // first octet, in the region's numbering
    uint64_t length; // octets; type 1: 0 unbinds, `lkey` is not read
    uint32_t access; // remote rights, MEM_ACCESS_ZERO_BASED (type 2 only); local ones mean nothing
};

// Binds the window, on the queue pair that asks, to a part of a region of the same domain.
// Type 1 may be bound already and moves; type 2 must not be and is from now on the asker's alone.
// MEM_INVALID_STAG: no such window or region. MEM_WRONG_PD. MEM_WINDOW_STATE. MEM_ACCESS: the
// region does not allow binding, is zero-based, has no local write for remote write or atomic; bits
// that a window cannot have. MEM_WRAP, MEM_BOUNDS: not inside the region; type 2 with length 0.
// A refused bind leaves the window as it was.
enum mem_verdict mem_window_bind(struct mem_table *table, struct mem_asker asker,
                                 const struct mem_binding *binding);

// Unbinds and frees. `stag`: any that the window has had (the key octet is not compared).
// -EINVAL: not a window.
int mem_window_dealloc(struct mem_table *table, uint32_t stag);

// The queue pair ends: its type 2 windows are unbound, so that a later queue pair with the same
// number inherits nothing. Returns how many.
uint32_t mem_windows_release_qp(struct mem_table *table, uint32_t qp_num);

/* ---- invalidation ---------------------------------------------------------------------------- */

// Takes a bound type 2 window back, by its queue pair: Send with Invalidate from the peer
// (`remote`) or a local invalidate request. Everything else is its owner's: MEM_CANNOT_INVALIDATE
// (RFC 5042 section 6.4.5).
enum mem_verdict mem_invalidate(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                                bool remote);

/* ---- writing ahead of an invalidation -------------------------------------------------------- */
//
// What a peer writes may be placed before what stands earlier in the stream has arrived, and that
// may take the very STag back. So the entry of an STag that a peer can take back keeps how far in
// its queue pair's stream anything was written through it beyond a hole.

// Octets were written through `stag`, which the asker was just granted, by what ends at `end` in
// the stream. Only STags that a peer can take back remember it.
void mem_note_early(struct mem_table *table, uint32_t stag, uint64_t end);
// The largest `end` since the STag was opened; 0: none, or no such STag.
uint64_t mem_early_end(struct mem_table *table, uint32_t stag);

/* ---- resolving ------------------------------------------------------------------------------- */

// May the peer do `access_needed` (remote rights) on [to, to + len) of `stag`? If MEM_OK, the
// memory is in ret_pieces; it is valid until the next call that changes the table. A region's or
// window's is one piece; that of a one-shot region is cut as its list is, and when `pieces_max`
// pieces are not enough, only so many are there: the caller asks again for what is behind them.
// Sinks are refused. A range of no octets is checked like any other; whether a zero-length message
// is to be checked at all is the protocol's question. `pieces_max` is at least 1.
enum mem_verdict mem_resolve(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                             uint64_t to, uint64_t len, uint32_t access_needed,
                             struct mspan *ret_pieces, unsigned pieces_max, unsigned *ret_count);

// Another number as soon as something may be refused that was granted, by both questions: until
// then whoever has asked for more than he needs at once may use it all, packet by packet. 0: it is
// to be asked for each time, since there are, or were, regions on demand.
uint64_t mem_table_version(const struct mem_table *table);

// Is it a region's, with MEM_ACCESS_RELAXED_ORDERING? A window's never is, whatever it is bound to:
// a peer may take it back in between.
bool mem_is_relaxed(struct mem_table *table, uint32_t stag);

// The local consumer's element: `write` if the engine will write there. Only regions are local
// keys. An element of length 0 names nothing: MEM_OK and an empty span, its key is not looked at.
enum mem_verdict mem_resolve_sge(struct mem_table *table, uint32_t pd, const struct sge *sge,
                                 bool write, struct mspan *ret);

/* ---- one-shot regions ------------------------------------------------------------------------ */

// A scatter list that the peer may reach from the Send that advertises it to the one that closes
// it. The STag is set aside and told beforehand, and is another one each time.

struct mem_element {
    struct mspan octets;
    uint64_t at; // octets of the list in front of it: mem_list_init counts them
};

// Memory of the program, in order. The cursor remembers where it was cut last: the next segment
// begins there, or elsewhere as the peer likes, and is then found in log2(count) steps.
struct mem_list {
    struct mem_element *elements;
    uint32_t count;
    uint32_t cursor_index; // element
    uint64_t length;       // of all elements
    uint64_t early_end;    // while open: see mem_note_early
};

// The octets of the elements have been filled in.
static inline void mem_list_init(struct mem_list *list, struct mem_element *elements,
                                 uint32_t count)
{
    *list = (struct mem_list){.elements = elements, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        elements[i].at = list->length;
        list->length += elements[i].octets.len;
    }
}

// Sets an STag aside for the asker's queue pair, closed. -EINVAL: no such domain; -ENOMEM, -ENOSPC.
int mem_oneshot_alloc(struct mem_table *table, struct mem_asker asker, uint32_t *ret_stag);

// What one caller has found out about memory, within one call of the program's or a short while:
// lists that lie near each other are asked about once. Zeroed: nothing.
struct mem_known {
    struct mspan mapped;
    bool is_writable;
};

// Is all of the list mapped, and writable if asked? 0, -EFAULT. Beside any other call: it looks at
// the port only.
int mem_oneshot_probe(const struct mem_table *table, const struct mem_list *list, bool writable,
                      struct mem_known *known);

// What an STag of a one-shot region opens.
struct mem_oneshot {
    struct mem_list *list;   // not copied: stays until the region is closed
    uint64_t offset, length; // the part of it that is opened; tagged offset 0 is its first octet
    uint32_t access;         // MEM_ACCESS_REMOTE_READ, MEM_ACCESS_REMOTE_WRITE, both
    uint32_t cookie;         // the owner's
};

// The peer may reach the memory from here on. `stag` is set aside and closed; the part lies in the
// list.
void mem_oneshot_open(struct mem_table *table, uint32_t stag, const struct mem_oneshot *region);

// Is this STag open to the asker, and if so, with which cookie? MEM_CANNOT_INVALIDATE: it names
// something else.
enum mem_verdict mem_oneshot_find(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                                  uint32_t *ret_cookie);
// Does it name a one-shot region, open or not?
bool mem_is_oneshot(struct mem_table *table, uint32_t stag);

// The memory is detached and the STag is dead; `*ret_stag` is the one to be opened next.
void mem_oneshot_close(struct mem_table *table, uint32_t stag, uint32_t *ret_stag);

// Gives back what mem_oneshot_alloc took, open or not.
void mem_oneshot_free(struct mem_table *table, uint32_t stag);

/* ---- sinks: where the answer to one RDMA Read Request is placed, and nothing else ------------ */

// Sets `count` more slots aside for sinks (at start, or when the pool of read contexts grows), so
// that opening one never allocates. -ENOMEM, -ENOSPC.
int mem_sinks_reserve(struct mem_table *table, uint32_t count);

// Opens the window [list_offset, list_offset + window_len) of a scatter list, whose tagged offsets
// run from `base_to`, to Read Responses on the asker's queue pair. `list` is not copied: it lives
// in the work request and must stay until the sink is closed.
// -EINVAL: window outside the list, more than SGE_COUNT_MAX elements, base_to + window_len passes
// 2^64; -ENOSPC: all reserved slots are in use.
int mem_sink_open(struct mem_table *table, struct mem_asker asker, const struct sge *list,
                  unsigned count, uint64_t list_offset, uint64_t window_len, uint64_t base_to,
                  uint32_t *ret_stag);

// Closes it; the STag is dead. -EINVAL: not an open sink.
int mem_sink_close(struct mem_table *table, uint32_t stag);

// Where do the octets [to, to + len) of a Read Response go? One piece per list element touched, at
// most SGE_COUNT_MAX, in order, none empty. The local keys are looked up afresh each time: what was
// deregistered meanwhile is refused with MEM_LOCAL_ELEMENT. Only sinks are admitted. `pieces_max`
// is SGE_COUNT_MAX or at least the length of the list.
enum mem_verdict mem_resolve_sink(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                                  uint64_t to, uint64_t len, struct mspan *ret_pieces,
                                  unsigned pieces_max, unsigned *ret_count);
