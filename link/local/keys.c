#include "link/local/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/errno_name.h"
#include "base/sanitized.h"
#include "base/trace.h"
#include "link/local/sealed.h"
#include "link/local/slot.h"
#include "link/sys.h"

// Of addresses that every process of this machine has. ThreadSanitizer ends a program that asks for
// some of them; in its builds the low ones are all there are to ask for.
enum { PLACE_BITS = IS_THREAD_SANITIZED ? 38 : 46 };

enum { PAGE_LEN = 4096, PLACE_TRIES = 8 };

/* ---- our own --------------------------------------------------------------------------------- */

// Where no other program is likely to have anything.
static int sill_make(struct local_own_keys *own)
{
    for (unsigned i = 0; i < PLACE_TRIES; i++) {
        uint64_t random[2];
        if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) {
            return -EAGAIN;
        }
        uintptr_t wanted = (random[0] >> (64 - PLACE_BITS)) & ~(uintptr_t)(PAGE_LEN - 1);
        void *at = mmap((void *)wanted, PAGE_LEN, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == (void *)wanted) {
            own->sill = at;
            own->nonce = random[1];
            memcpy(own->sill + sizeof own->nonce, &own->nonce, sizeof own->nonce);
            return madvise(at, PAGE_LEN, MADV_DONTFORK) != 0 ? -errno : 0;
        }
        if (at != MAP_FAILED) {
            munmap(at, PAGE_LEN); // a kernel that does not know the flag
        }
    }
    return -ENOMEM;
}

static int shown_make(struct local_own_keys *own)
{
    uint8_t *memory;
    int error = local_sealed_create("weft-keys", sizeof(struct local_shown), LOCAL_SEALED_TO_READ,
                                    &memory, &own->fd);
    if (error == 0) {
        own->shown = (struct local_shown *)(void *)memory;
    }
    return error;
}

static int own_create(struct local_own_keys *own)
{
    int saved = errno;
    *own = (struct local_own_keys){.fd = -1};
    int error = shown_make(own);
    if (error == 0) {
        error = sill_make(own);
    }
    if (error != 0) {
        local_own_keys_destroy(own);
    }
    errno = saved;
    return error;
}

struct local_shown *local_own_keys_show(struct local_own_keys *own, struct trace *trace)
{
    if (own->shown == NULL) {
        int error = own_create(own);
        if (error != 0) {
            TRACE(trace, TRACE_LINK, "no keys are shown: %s", errno_name(-error));
        }
    }
    return own->shown;
}

void local_own_keys_name(const struct local_own_keys *own, struct local_gate *gate)
{
    atomic_store(&gate->mirror_fd, (uint64_t)own->fd);
    atomic_store(&gate->sill, (uint64_t)(uintptr_t)own->sill);
    atomic_store(&gate->nonce, own->nonce);
}

void local_own_keys_destroy(struct local_own_keys *own)
{
    if (own->shown != NULL) {
        munmap(own->shown, sizeof *own->shown);
    }
    if (own->sill != NULL) {
        munmap(own->sill, PAGE_LEN);
    }
    local_own_keys_abandon(own);
}

void local_own_keys_abandon(struct local_own_keys *own)
{
    if (own->fd >= 0) {
        sys_close(own->fd);
    }
    *own = (struct local_own_keys){.fd = -1};
}

/* ---- a peer's -------------------------------------------------------------------------------- */

static int borrow_descriptor(pid_t process, uint64_t number)
{
    int pidfd = number <= INT32_MAX ? sys_pidfd_open(process) : -EBADF;
    if (pidfd < 0) {
        return pidfd;
    }
    int fd = sys_pidfd_getfd(pidfd, (int)number);
    sys_close(pidfd);
    return fd;
}

// What cannot be cut off under us, nor be written by us.
static int map_shown(int fd, struct local_peer_keys *peer)
{
    const void *at;
    if (!local_sealed_is(fd, sizeof *peer->shown, LOCAL_SEALED_TO_READ)) {
        return -EINVAL;
    }
    int error = sys_map_foreign(fd, sizeof *peer->shown, &at);
    if (error == 0) {
        peer->shown = at;
    }
    return error;
}

static int try_sill(pid_t process, uint64_t sill, uint64_t nonce)
{
    uint64_t seen = 0, written = 0;
    const struct iovec here = {&seen, sizeof seen};
    const struct iovec there = {(void *)(uintptr_t)(sill + sizeof nonce), sizeof nonce};
    ssize_t len = sys_process_vm_readv(process, &here, 1, &there, 1);
    if (len < 0) {
        return (int)len;
    }
    if (len != sizeof seen || seen != nonce) {
        return -ESRCH; // another process has the number
    }
    const struct iovec from = {&written, sizeof written};
    const struct iovec to = {(void *)(uintptr_t)sill, sizeof written};
    len = sys_process_vm_writev(process, &from, 1, &to, 1);
    return len < 0 ? (int)len : 0;
}

int local_peer_keys_open(struct local_peer_keys *peer, const struct local_gate *gate, pid_t process)
{
    *peer = (struct local_peer_keys){.process = process, .nonce = atomic_load(&gate->nonce)};
    list_init(&peer->link);
    int fd = borrow_descriptor(process, atomic_load(&gate->mirror_fd));
    if (fd < 0) {
        return fd;
    }
    int error = map_shown(fd, peer);
    sys_close(fd);
    if (error == 0) {
        error = try_sill(process, atomic_load(&gate->sill), peer->nonce);
    }
    if (error != 0) {
        local_peer_keys_close(peer);
    }
    return error;
}

void local_peer_keys_close(struct local_peer_keys *peer)
{
    if (peer->shown != NULL) {
        munmap((void *)(uintptr_t)peer->shown, sizeof *peer->shown);
        peer->shown = NULL;
    }
}
