#include "node/rbd/fence.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_AGAIN_MS = 250,
    WAITERS_MAX = 16, // at a socket; who finds no place looks again
    WATCHER_COUNT_MAX = 64,
    RECORD_MAX = FENCE_HERE_MAX + FENCE_ADDRESS_MAX + 2,
};

// Kept with the image: where its last writer of weft's was, and its address.
static const char record_key[] = "weft.owner";

static int fail(struct why *ret_why, int error, const char *what)
{
    why_say(ret_why, "%s: %s", what, strerror(-error));
    return error;
}

static instant_ns clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

/* ---- this machine ---------------------------------------------------------------------------- */

// Empty where the system does not say: then nobody else's end is known at once.
static void here_find(char ret[FENCE_HERE_MAX])
{
    char boot[64] = "", network[64] = "";
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool is_said = in != NULL && fgets(boot, sizeof boot, in) != NULL;
    if (in != NULL) {
        fclose(in);
    }
    boot[strcspn(boot, "\n")] = '\0';
    is_said &= readlink("/proc/self/ns/net", network, sizeof network - 1) > 0;
    snprintf(ret, FENCE_HERE_MAX, "%.40s/%.40s", boot, network);
    ret[is_said ? FENCE_HERE_MAX - 1 : 0] = '\0';
}

int fence_init(struct fence *fence, int keepsake)
{
    *fence = (struct fence){.socket_fd = -1, .past_fd = keepsake};
    here_find(fence->here);
    if (keepsake >= 0) {
        return 0;
    }
    fence->past_fd = memfd_create("weft-rbd", MFD_CLOEXEC);
    bool is_made = fence->past_fd >= 0 && ftruncate(fence->past_fd, sizeof(struct fence_past)) == 0;
    return is_made ? 0 : -errno;
}

void fence_fini(struct fence *fence)
{
    if (fence->socket_fd >= 0) {
        close(fence->socket_fd);
    }
    if (fence->past_fd >= 0) {
        close(fence->past_fd);
    }
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static socklen_t socket_name(const char *image, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft/rbd/%016" PRIx64,
                       hash_of(image));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int name_take(int fd, const struct sockaddr_un *name, socklen_t len)
{
    bool is_taken =
        bind(fd, (const struct sockaddr *)name, len) == 0 && listen(fd, WAITERS_MAX) == 0;
    return is_taken ? 0 : errno == EADDRINUSE ? -EBUSY : -errno;
}

// Until whoever listens there is gone, or it is time to look again. Who connects is never let in:
// the connection ends with the listener.
static void name_await(const struct sockaddr_un *name, socklen_t len, instant_ns until)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_there = fd >= 0 && connect(fd, (const struct sockaddr *)name, len) == 0;
    struct pollfd end = {.fd = is_there ? fd : -1};
    bool is_endless = is_there && until == INSTANT_NEVER;
    poll(&end, 1, is_endless ? -1 : LOOK_AGAIN_MS);
    if (fd >= 0) {
        close(fd);
    }
}

static int name_take_when_free(int fd, const char *image, const struct fence_patience *patience)
{
    struct sockaddr_un name;
    socklen_t len = socket_name(image, &name);
    instant_ns until = instant_after(clock_now(), patience->for_socket);
    bool has_said = patience->on_wait == NULL;
    int error;
    while ((error = name_take(fd, &name, len)) == -EBUSY && clock_now() < until) {
        if (!has_said) {
            patience->on_wait(patience->ctx, "another process of this machine has it open");
            has_said = true;
        }
        name_await(&name, len, until);
    }
    return error;
}

int fence_enter(struct fence *fence, const char *image, const struct fence_patience *patience)
{
    if (fence->socket_fd >= 0) {
        return 0;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 ? -errno : name_take_when_free(fd, image, patience);
    if (error == 0) {
        fence->socket_fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    return error;
}

/* ---- the past -------------------------------------------------------------------------------- */

static void past_read(const struct fence *fence, struct fence_past *ret)
{
    *ret = (struct fence_past){0};
    ssize_t got = pread(fence->past_fd, ret, sizeof *ret, 0);
    for (unsigned i = 0; i < FENCE_PAST_MAX; i++) {
        ret->owners[i][got == sizeof *ret ? FENCE_ADDRESS_MAX - 1 : 0] = '\0';
    }
}

static int past_write(struct fence *fence, const char *first, const char *second)
{
    struct fence_past past = {0};
    snprintf(past.owners[0], sizeof past.owners[0], "%s", first);
    snprintf(past.owners[1], sizeof past.owners[1], "%s", second);
    ssize_t written = pwrite(fence->past_fd, &past, sizeof past, 0);
    return written == sizeof past ? 0 : -EIO;
}

static bool past_has(const struct fence_past *past, const char *owner)
{
    return owner[0] != '\0' &&
           (strcmp(past->owners[0], owner) == 0 || strcmp(past->owners[1], owner) == 0);
}

/* ---- what the image says --------------------------------------------------------------------- */

// Its record, empty where there is none; the address in it.
static int record_read(rbd_image_t image, char ret[RECORD_MAX])
{
    size_t len = RECORD_MAX;
    int error = rbd_metadata_get(image, record_key, ret, &len);
    if (error == -ENOENT || error == -ERANGE) {
        ret[0] = '\0';
        return 0;
    }
    ret[error == 0 ? RECORD_MAX - 1 : 0] = '\0';
    return error;
}

static const char *record_owner(const char *record)
{
    const char *blank = strchr(record, ' ');
    return blank != NULL ? blank + 1 : "";
}

static bool record_is_of_here(const struct fence *fence, const char *record)
{
    size_t len = strlen(fence->here);
    return len > 0 && strncmp(record, fence->here, len) == 0 && record[len] == ' ';
}

// Empty: nobody has the lock.
static int owner_find(rbd_image_t image, char ret[FENCE_ADDRESS_MAX])
{
    rbd_lock_mode_t mode;
    char *owner = NULL;
    size_t count = 1;
    ret[0] = '\0';
    int error = rbd_lock_get_owners(image, &mode, &owner, &count);
    if (error == -ENOENT) {
        return 0;
    }
    if (error == 0 && count == 1) {
        snprintf(ret, FENCE_ADDRESS_MAX, "%s", owner);
        rbd_lock_get_owners_cleanup(&owner, count);
    }
    return error;
}

// Does a client of this address watch the image? Where that cannot be found out, it does.
static bool is_watching(rbd_image_t image, const char *owner)
{
    rbd_image_watcher_t watchers[WATCHER_COUNT_MAX];
    size_t count = WATCHER_COUNT_MAX;
    if (rbd_watchers_list(image, watchers, &count) != 0) {
        return true;
    }
    bool is_there = false;
    for (size_t i = 0; i < count; i++) {
        is_there |= strcmp(watchers[i].addr, owner) == 0;
    }
    rbd_watchers_list_cleanup(watchers, count);
    return is_there;
}

/* ---- taking the lock ------------------------------------------------------------------------- */

// One who takes the lock, and what it has found.
struct taking {
    struct fence *fence;
    rados_t cluster;
    rbd_image_t image;
    struct fence_past past;
    char self[FENCE_ADDRESS_MAX];
    char record[RECORD_MAX]; // before anything is done
};

static bool is_dead(const struct taking *taking, const char *owner)
{
    return past_has(&taking->past, owner) ||
           (record_is_of_here(taking->fence, taking->record) &&
            strcmp(record_owner(taking->record), owner) == 0) ||
           !is_watching(taking->image, owner);
}

// Nobody else has had the lock since: it is still ours, or nobody's because it was just changing
// hands here, and the last record is of us.
static bool is_unbroken(const struct taking *taking, const char *owner)
{
    bool was_changing = taking->past.owners[1][0] != '\0';
    return past_has(&taking->past, record_owner(taking->record)) &&
           (past_has(&taking->past, owner) || (owner[0] == '\0' && was_changing));
}

// Those of the past whose lock is not there to be broken are shut out all the same.
static int past_shut_out(const struct taking *taking, const char *owner)
{
    int error = 0;
    for (unsigned i = 0; i < FENCE_PAST_MAX && error == 0; i++) {
        char address[FENCE_ADDRESS_MAX];
        snprintf(address, sizeof address, "%s", taking->past.owners[i]);
        if (address[0] != '\0' && strcmp(address, owner) != 0) {
            error = rados_blocklist_add(taking->cluster, address, 0);
            error = error == 0 ? rados_wait_for_latest_osdmap(taking->cluster) : error;
        }
    }
    return error;
}

static int acquire_when_free(const struct taking *taking, const char *owner)
{
    int error = 0;
    if (owner[0] != '\0') {
        error = rbd_lock_break(taking->image, RBD_LOCK_MODE_EXCLUSIVE, owner);
        error = error == -ENOENT ? 0 : error; // it has gone meanwhile
    }
    error = error == 0 ? rbd_lock_acquire(taking->image, RBD_LOCK_MODE_EXCLUSIVE) : error;
    return error == -EROFS ? -EBUSY : error; // somebody was faster, and lives
}

// Until the lock is ours, or has been a living owner's for as long as it may.
static int acquire(struct taking *taking, char owner[FENCE_ADDRESS_MAX],
                   const struct fence_patience *patience, struct why *ret_why)
{
    instant_ns until = instant_after(clock_now(), patience->for_lock);
    bool has_said = patience->on_wait == NULL;
    for (;;) {
        int error =
            owner[0] == '\0' || is_dead(taking, owner) ? acquire_when_free(taking, owner) : -EBUSY;
        if (error != -EBUSY) {
            return error == 0 ? 0 : fail(ret_why, error, "the image's exclusive lock");
        }
        why_say(ret_why, "%.100s has the image's exclusive lock, and lives", owner);
        if (clock_now() >= until) {
            return -EBUSY;
        }
        if (!has_said) {
            patience->on_wait(patience->ctx, ret_why->text);
            has_said = true;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
        if ((error = owner_find(taking->image, owner)) != 0) {
            return fail(ret_why, error, "the owner of the image's lock");
        }
    }
}

static int taking_begin(struct taking *taking, char owner[FENCE_ADDRESS_MAX])
{
    char *self = NULL;
    int error = rados_getaddrs(taking->cluster, &self);
    if (error == 0) {
        snprintf(taking->self, sizeof taking->self, "%s", self);
        free(self);
        past_read(taking->fence, &taking->past);
        error = record_read(taking->image, taking->record);
    }
    return error == 0 ? owner_find(taking->image, owner) : error;
}

// The lock is ours: says so with the image, before the first write.
static int taking_end(struct taking *taking, bool *ret_is_unbroken)
{
    char record[RECORD_MAX];
    int error = record_read(taking->image, record);
    *ret_is_unbroken &= error == 0 && strcmp(record, taking->record) == 0;
    snprintf(record, sizeof record, "%s %s", taking->fence->here, taking->self);
    error = error == 0 ? rbd_metadata_set(taking->image, record_key, record) : error;
    return error == 0 ? past_write(taking->fence, taking->self, "") : error;
}

int fence_take(struct fence *fence, rados_t cluster, rbd_image_t image,
               const struct fence_patience *patience, bool *ret_is_unbroken, struct why *ret_why)
{
    struct taking taking = {.fence = fence, .cluster = cluster, .image = image};
    char owner[FENCE_ADDRESS_MAX];
    *ret_is_unbroken = false;
    int error = taking_begin(&taking, owner);
    if (error != 0) {
        return fail(ret_why, error, "the owner of the image's lock");
    }
    *ret_is_unbroken = is_unbroken(&taking, owner);
    error = past_shut_out(&taking, owner);
    if (error != 0) {
        return fail(ret_why, error, "shutting out the process before");
    }
    // The successor of a process that is killed from here on knows both.
    const char *last = past_has(&taking.past, owner) ? owner : taking.past.owners[0];
    error = past_write(fence, last, taking.self);
    error = error == 0 ? acquire(&taking, owner, patience, ret_why)
                       : fail(ret_why, error, "the keepsake");
    if (error == -EBUSY) {
        past_write(fence, "", ""); // broken for good, and shut out
    }
    if (error != 0) {
        return error;
    }
    error = taking_end(&taking, ret_is_unbroken);
    return error == 0 ? 0 : fail(ret_why, error, "the record of the image's owner");
}
