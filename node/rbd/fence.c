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
#include <unistd.h>

#include "base/fnv.h"
#include "clock/clock.h"

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
    bool is_made = fence->past_fd >= 0 && ftruncate(fence->past_fd, sizeof(struct fence_kept)) == 0;
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

static socklen_t socket_name(const char *image, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft/rbd/%016" PRIx64,
                       fnv_text(FNV_START, image));
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

static const off_t kept_past = offsetof(struct fence_kept, past);
static const off_t kept_count = offsetof(struct fence_kept, count);

static off_t kept_address(uint64_t number)
{
    size_t place = number % FENCE_PROCESS_COUNT_MAX * FENCE_ADDRESS_MAX;
    return (off_t)(offsetof(struct fence_kept, processes) + place);
}

static uint64_t process_count(const struct fence *fence)
{
    uint64_t count;
    ssize_t got = pread(fence->past_fd, &count, sizeof count, kept_count);
    return got == sizeof count ? count : 0;
}

// The address first: who is killed in between has not opened the image.
static bool process_add(struct fence *fence)
{
    uint64_t count = process_count(fence), next = count + 1;
    return pwrite(fence->past_fd, fence->self, FENCE_ADDRESS_MAX, kept_address(count)) ==
               FENCE_ADDRESS_MAX &&
           pwrite(fence->past_fd, &next, sizeof next, kept_count) == sizeof next;
}

static bool is_process_of_ours(const struct fence *fence, const char *address)
{
    char all[FENCE_PROCESS_COUNT_MAX][FENCE_ADDRESS_MAX];
    bool is_it = false;
    if (pread(fence->past_fd, all, sizeof all, kept_address(0)) == sizeof all) {
        for (unsigned i = 0; i < FENCE_PROCESS_COUNT_MAX; i++) {
            is_it |= strncmp(all[i], address, sizeof all[i]) == 0;
        }
    }
    return is_it;
}

int fence_begin(struct fence *fence, rados_t cluster)
{
    char *self = NULL;
    int error = rados_getaddrs(cluster, &self);
    if (error == 0) {
        memset(fence->self, 0, sizeof fence->self);
        snprintf(fence->self, sizeof fence->self, "%s", self);
        free(self);
        error = process_add(fence) ? 0 : -EIO;
    }
    return error;
}

static void past_read(const struct fence *fence, struct fence_past *ret)
{
    *ret = (struct fence_past){0};
    if (pread(fence->past_fd, ret, sizeof *ret, kept_past) != sizeof *ret) {
        *ret = (struct fence_past){0};
    }
    ret->record[FENCE_ADDRESS_MAX - 1] = '\0';
    ret->last[FENCE_ADDRESS_MAX - 1] = '\0';
    ret->next[FENCE_ADDRESS_MAX - 1] = '\0';
}

static int past_write(struct fence *fence, const char *record, const char *last, const char *next)
{
    struct fence_past past = {0};
    snprintf(past.record, sizeof past.record, "%s", record);
    snprintf(past.last, sizeof past.last, "%s", last);
    snprintf(past.next, sizeof past.next, "%s", next);
    ssize_t written = pwrite(fence->past_fd, &past, sizeof past, kept_past);
    return written == sizeof past ? 0 : -EIO;
}

static bool is_same(const char *one, const char *other)
{
    return one[0] != '\0' && strcmp(one, other) == 0;
}

static bool past_has(const struct fence_past *past, const char *owner)
{
    return is_same(past->last, owner) || is_same(past->next, owner);
}

// For good: whatever the next one finds, nothing is submitted again.
static void past_break(struct fence *fence)
{
    past_write(fence, "", "", fence->self);
}

int fence_settle(struct fence *fence)
{
    struct fence_past past;
    past_read(fence, &past);
    return past_write(fence, past.last, past.last, past.next);
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

// Does anybody watch the image whom `is_it` means? Where that cannot be found out, somebody does.
static bool is_watched(rbd_image_t image, bool (*is_it)(const void *ctx, const char *watcher),
                       const void *ctx)
{
    rbd_image_watcher_t watchers[WATCHER_COUNT_MAX];
    size_t count = WATCHER_COUNT_MAX;
    if (rbd_watchers_list(image, watchers, &count) != 0) {
        return true;
    }
    bool is_there = false;
    for (size_t i = 0; i < count; i++) {
        is_there |= is_it(ctx, watchers[i].addr);
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
    char record[RECORD_MAX];       // before anything is done
    char owner[FENCE_ADDRESS_MAX]; // as of the last look; empty: nobody has the lock
    bool is_unbroken;
};

static bool is_owner(const void *ctx, const char *watcher)
{
    return strcmp(((const struct taking *)ctx)->owner, watcher) == 0;
}

static bool is_stranger(const void *ctx, const char *watcher)
{
    return !is_process_of_ours(((const struct taking *)ctx)->fence, watcher);
}

// Since this machine's name of the image is ours, such an owner is dead.
static bool owner_was_here(const struct taking *taking)
{
    return past_has(&taking->past, taking->owner) ||
           (record_is_of_here(taking->fence, taking->record) &&
            is_same(record_owner(taking->record), taking->owner));
}

static bool owner_is_dead(const struct taking *taking)
{
    return owner_was_here(taking) || !is_watched(taking->image, is_owner, taking);
}

// Whom nobody else can have followed: the table of fence.h. A client that writes watches the image;
// while one does that is none of ours, it may have had the lock and given it back.
static bool is_unbroken(const struct taking *taking)
{
    const struct fence_past *past = &taking->past;
    const char *owner = taking->owner, *record = record_owner(taking->record);
    bool is_changing = past->next[0] != '\0';
    bool was_left = is_same(past->record, record);
    bool is_ours =
        (was_left && is_same(past->last, owner)) || (was_left && is_changing && owner[0] == '\0') ||
        (was_left && is_same(past->next, owner)) ||
        (is_same(past->next, owner) && past->record[0] != '\0' && is_same(owner, record));
    return is_ours && !is_watched(taking->image, is_stranger, taking);
}

static int shut_out(const struct taking *taking, const char *whom)
{
    char address[FENCE_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s", whom);
    int error = address[0] != '\0' ? rados_blocklist_add(taking->cluster, address, 0) : 0;
    return error == 0 && address[0] != '\0' ? rados_wait_for_latest_osdmap(taking->cluster) : error;
}

// Of who was killed while the lock changed hands something may still be on its way: the taking of
// the lock, a record. Who is settled, and has the lock, is shut out when that is broken.
static int past_shut_out(const struct taking *taking)
{
    const struct fence_past *past = &taking->past;
    bool is_settled = past->next[0] == '\0' && is_same(past->last, taking->owner);
    int error = is_settled ? 0 : shut_out(taking, past->last);
    return error == 0 ? shut_out(taking, past->next) : error;
}

// The successor of a process that is killed from here on knows what that found, and whom it broke.
static int taking_announce(struct taking *taking)
{
    const char *record = taking->is_unbroken ? record_owner(taking->record) : "";
    const char *last = past_has(&taking->past, taking->owner) ? taking->owner : "";
    return past_write(taking->fence, record, last, taking->fence->self);
}

// Somebody else has the lock, or has had it: for successors too, however this one ends.
static int taking_note_other(struct taking *taking)
{
    const bool is_news = taking->is_unbroken;
    taking->is_unbroken = false;
    return is_news ? taking_announce(taking) : 0;
}

// -EBUSY: somebody was faster, and lives.
static int acquire_when_free(const struct taking *taking)
{
    const char *owner = taking->owner;
    int error = 0;
    if (owner[0] != '\0') {
        error = rbd_lock_break(taking->image, RBD_LOCK_MODE_EXCLUSIVE, owner);
    }
    // Somebody else has broken it, and maybe no more; or who had it, and is none of ours, gave it
    // back meanwhile and lives: a host's kernel is one client for all images that it has.
    if (error == -ENOENT || error == -EBUSY) {
        int failed = owner_was_here(taking) ? shut_out(taking, owner) : 0;
        error = failed != 0 ? failed : error == -ENOENT ? 0 : error;
    }
    error = error == 0 ? rbd_lock_acquire(taking->image, RBD_LOCK_MODE_EXCLUSIVE) : error;
    return error == -EROFS ? -EBUSY : error;
}

// Until the lock is ours, or has been a living owner's for as long as it may.
static int acquire(struct taking *taking, const struct fence_patience *patience,
                   struct why *ret_why)
{
    instant_ns until = instant_after(clock_now(), patience->for_lock);
    bool has_said = patience->on_wait == NULL;
    for (;;) {
        bool may_take = taking->owner[0] == '\0' || owner_is_dead(taking);
        int error = may_take ? acquire_when_free(taking) : -EBUSY;
        if (error != -EBUSY) {
            return error == 0 ? 0 : fail(ret_why, error, "the image's exclusive lock");
        }
        if ((error = taking_note_other(taking)) != 0) {
            return fail(ret_why, error, "the keepsake");
        }
        why_say(ret_why, "%.100s has the image's exclusive lock, and lives", taking->owner);
        if (clock_now() >= until) {
            return -EBUSY;
        }
        if (!has_said) {
            patience->on_wait(patience->ctx, ret_why->text);
            has_said = true;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
        if ((error = owner_find(taking->image, taking->owner)) != 0) {
            return fail(ret_why, error, "the owner of the image's lock");
        }
    }
}

// Once nothing of the past is on its way any more.
static int taking_look(struct taking *taking)
{
    int error = record_read(taking->image, taking->record);
    error = error == 0 ? owner_find(taking->image, taking->owner) : error;
    taking->is_unbroken = error == 0 && is_unbroken(taking);
    return error;
}

// The lock is ours: says so with the image, before the first write.
static int taking_end(struct taking *taking)
{
    char record[RECORD_MAX];
    int error = record_read(taking->image, record);
    taking->is_unbroken &= error == 0 && strcmp(record, taking->record) == 0 &&
                           !is_watched(taking->image, is_stranger, taking);
    error = error == 0 ? taking_announce(taking) : error;
    snprintf(record, sizeof record, "%s %s", taking->fence->here, taking->fence->self);
    error = error == 0 ? rbd_metadata_set(taking->image, record_key, record) : error;
    const char *whose = taking->is_unbroken ? taking->fence->self : "";
    return error == 0 ? past_write(taking->fence, whose, taking->fence->self, "") : error;
}

int fence_take(struct fence *fence, rados_t cluster, rbd_image_t image,
               const struct fence_patience *patience, bool *ret_is_unbroken, struct why *ret_why)
{
    struct taking taking = {.fence = fence, .cluster = cluster, .image = image};
    *ret_is_unbroken = false;
    past_read(fence, &taking.past);
    int error = owner_find(image, taking.owner);
    if (error != 0) {
        return fail(ret_why, error, "the owner of the image's lock");
    }
    error = past_shut_out(&taking);
    if (error != 0) {
        return fail(ret_why, error, "shutting out the process before");
    }
    error = taking_look(&taking);
    if (error != 0) {
        return fail(ret_why, error, "the owner of the image's lock");
    }
    error = taking_announce(&taking);
    error = error == 0 ? acquire(&taking, patience, ret_why) : fail(ret_why, error, "the keepsake");
    if (error == -EBUSY) {
        past_break(fence);
    }
    if (error != 0) {
        return error;
    }
    error = taking_end(&taking);
    if (error != 0) {
        past_break(fence); // the lock will be given back, to whoever comes
        return fail(ret_why, error, "the record of the image's owner");
    }
    *ret_is_unbroken = taking.is_unbroken;
    return 0;
}
