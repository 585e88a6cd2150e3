#include "link/local/slot.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/port_push.h"
#include "base/shared_word.h"
#include "link/local/thread.h"
#include "link/sys.h"

enum {
    TAIL_LEN_MAX = 64,
    SPINS = 2000, // looks before the kernel is asked how the thread is: a copy takes microseconds
};

/* ---- who pushes ------------------------------------------------------------------------------ */

static void place_set(struct local_slot *slot, unsigned place, uint64_t addr, uint64_t len)
{
    word_store(&slot->places[place].addr, addr);
    word_store(&slot->places[place].len, len);
}

// Octets of the last cache line that the push reaches into: programs look at them to see whether
// all others have come. A push within one line is one place fewer for the kernel to look for.
static size_t tail_len_of(uint64_t addr, size_t len)
{
    size_t in_line = (size_t)((addr + len - 1) % TAIL_LEN_MAX) + 1;
    return in_line < len ? in_line : len;
}

bool local_slot_enter(const struct local_pusher *p, const struct key *key, uint64_t addr,
                      size_t len)
{
    struct local_slot *slot = p->slot;
    CHECK(len > 0);
    size_t tail_len = tail_len_of(addr, len);
    place_set(slot, LOCAL_SLOT_SILL, p->sill, LOCAL_SILL_LEN);
    place_set(slot, LOCAL_SLOT_BODY, addr, len - tail_len);
    place_set(slot, LOCAL_SLOT_TAIL, addr + len - tail_len, tail_len);
    word_store(&slot->thread, (uint64_t)local_thread_self());
    word_store(&slot->turn, word_load(&slot->turn) + 1);
    word_store(&slot->opening, p->opening);
    atomic_store_explicit(&slot->generation, key->generation, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (key_is_shown(key) && word_load(p->gate) == p->opening) {
        return true;
    }
    local_slot_leave(p);
    return false;
}

int local_slot_call(const struct local_pusher *p, const uint8_t *octets, size_t len)
{
    static const uint64_t on_sill;
    const struct iovec local[] = {{(void *)(uintptr_t)&on_sill, LOCAL_SILL_LEN},
                                  {(void *)(uintptr_t)octets, len}};
    const struct iovec *places = (const struct iovec *)(const void *)p->slot->places;
    ssize_t written = sys_process_vm_writev(p->process, local, 2, places, LOCAL_SLOT_PLACES);
    if (written < 0) {
        return (int)written;
    }
    return (size_t)written == LOCAL_SILL_LEN + len ? 0 : -EAGAIN;
}

void local_slot_leave(const struct local_pusher *p)
{
    atomic_store_explicit(&p->slot->generation, 0, memory_order_release);
}

bool local_slot_push(const struct local_pusher *p, const struct key *key, uint64_t addr,
                     const struct span *pieces, unsigned count, size_t len)
{
    uint8_t octets[PUSH_LEN_MAX];
    size_t done = 0;
    CHECK(len <= sizeof octets);
    for (unsigned i = 0; i < count; i++) {
        memcpy(octets + done, pieces[i].ptr, pieces[i].len);
        done += pieces[i].len;
    }
    if (!local_slot_enter(p, key, addr, len)) {
        return false;
    }
    const int error = local_slot_call(p, octets, len);
    local_slot_leave(p);
    return error == 0;
}

/* ---- whose memory it is ---------------------------------------------------------------------- */

// The last page of all, which no process has: a call whose sill is there ends before it has written
// anything. It is one word, so there is no instant at which a call sees half of it; and if the next
// push has begun meanwhile, that one fails, and no octet of it comes where another belongs.
static const uint64_t nowhere = UINT64_MAX - 4095;

// What was taken back: the key of this generation, or the gate with this opening.
struct revoked {
    uint64_t generation, opening;
};

static bool is_by(const struct local_slot *slot, uint64_t in, const struct revoked *what)
{
    return what->generation == LOCAL_SLOT_ANY || in == what->generation ||
           (what->opening != 0 &&
            atomic_load_explicit(&slot->opening, memory_order_seq_cst) == what->opening);
}

// Nobody is in by it, or somebody else has come in since, who has looked at what it is worth.
static bool has_left(struct local_slot *slot, const struct revoked *what, uint64_t turn)
{
    const uint64_t in = atomic_load_explicit(&slot->generation, memory_order_seq_cst);
    return in == 0 || !is_by(slot, in, what) ||
           atomic_load_explicit(&slot->turn, memory_order_seq_cst) != turn;
}

// No thread has such a number: who says so waits for nobody.
static bool is_out(struct local_slot *slot, pid_t process)
{
    uint64_t thread = atomic_load_explicit(&slot->thread, memory_order_seq_cst);
    return thread == 0 || thread > INT_MAX || local_thread_is_out(process, (pid_t)thread);
}

static bool revoke(struct local_slot *slot, const struct revoked *what, pid_t process)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_seq_cst);
    if (has_left(slot, what, turn)) {
        return true;
    }
    word_store(&slot->places[LOCAL_SLOT_SILL].addr, nowhere);
    atomic_thread_fence(memory_order_seq_cst);
    for (unsigned i = 0; i < SPINS; i++) {
        if (has_left(slot, what, turn)) {
            return true;
        }
    }
    return is_out(slot, process);
}

bool local_slot_revoke(struct local_slot *slot, uint64_t generation, pid_t process)
{
    return revoke(slot, &(struct revoked){.generation = generation}, process);
}

bool local_slot_expel(struct local_slot *slot, uint64_t opening, pid_t process)
{
    return revoke(slot, &(struct revoked){.opening = opening}, process);
}
