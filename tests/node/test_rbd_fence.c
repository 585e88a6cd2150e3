// The fence of Ceph images, before a cluster that is a few variables: whose lock it waits for,
// whose it breaks, whom it shuts out and in which order, and when the past is unbroken. Time and
// waiting are the test's.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "base/why.h"
#include "node/rbd/fence.h"

enum { TEXT_MAX = 256, SAID_MAX = 1024 };

/* ---- the cluster ----------------------------------------------------------------------------- */

static struct {
    char owner[TEXT_MAX];  // of the lock; empty: nobody
    char record[TEXT_MAX]; // with the image; empty: none
    const char *self;      // this process's address; NULL: self
    const char *watcher;   // who watches beside this process; NULL: nobody
    char told[SAID_MAX];   // what it was told to do, in order
    const char *fails;     // which call fails, how, and after how many waits
    int error;
    unsigned fails_after;
    const char *other;       // who changes the record while the lock is taken
    unsigned owners_to_free; // what was lent and not given back
    unsigned watchers_to_free;
} cluster;

static unsigned waits; // how often somebody waited

static int outcome(const char *call)
{
    bool is_it = cluster.fails != NULL && strcmp(cluster.fails, call) == 0;
    return is_it && waits >= cluster.fails_after ? cluster.error : 0;
}

static void tell(const char *what, const char *whom)
{
    size_t len = strlen(cluster.told);
    snprintf(cluster.told + len, sizeof cluster.told - len, "%s%s%s%s", len > 0 ? ", " : "", what,
             whom[0] != '\0' ? " " : "", whom);
}

int rados_getaddrs(rados_t at, char **ret_addrs)
{
    int error = outcome("addrs");
    *ret_addrs = error == 0 ? strdup(cluster.self != NULL ? cluster.self : "self") : NULL;
    return error;
}

int rados_blocklist_add(rados_t at, char *client_address, uint32_t expire_seconds)
{
    assert_int_equal(expire_seconds, 0);
    tell("shut out", client_address);
    return outcome("shut out");
}

int rados_wait_for_latest_osdmap(rados_t at)
{
    tell("map", "");
    return outcome("map");
}

int rbd_metadata_get(rbd_image_t image, const char *key, char *value, size_t *ret_len)
{
    assert_string_equal(key, "weft.owner");
    if (outcome("get") != 0) {
        return outcome("get");
    }
    snprintf(value, *ret_len, "%s", cluster.record);
    return cluster.record[0] != '\0' ? 0 : -ENOENT;
}

int rbd_metadata_set(rbd_image_t image, const char *key, const char *value)
{
    assert_string_equal(key, "weft.owner");
    snprintf(cluster.record, sizeof cluster.record, "%s", value);
    tell("record", "");
    return outcome("set");
}

int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *ret_mode, char **ret_owners,
                        size_t *max_count)
{
    if (outcome("owners") != 0) {
        return outcome("owners");
    }
    if (cluster.owner[0] == '\0') {
        return -ENOENT;
    }
    assert_int_equal(*max_count, 1);
    *ret_mode = RBD_LOCK_MODE_EXCLUSIVE;
    *ret_owners = strdup(cluster.owner);
    *max_count = 1;
    cluster.owners_to_free++;
    return 0;
}

void rbd_lock_get_owners_cleanup(char **owners, size_t count)
{
    assert_int_equal(count, 1);
    free(*owners);
    cluster.owners_to_free--;
}

int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t mode, const char *owner)
{
    assert_int_equal(mode, RBD_LOCK_MODE_EXCLUSIVE);
    assert_string_equal(owner, cluster.owner);
    cluster.owner[0] = '\0';
    tell("break", owner);
    return outcome("break");
}

int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t mode)
{
    assert_int_equal(mode, RBD_LOCK_MODE_EXCLUSIVE);
    tell("take", "");
    if (cluster.other != NULL) {
        snprintf(cluster.record, sizeof cluster.record, "%s", cluster.other);
    }
    return outcome("take");
}

int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *max_count)
{
    if (outcome("watchers") != 0) {
        return outcome("watchers");
    }
    assert_true(*max_count >= 2);
    const char *there[] = {"self", cluster.watcher};
    *max_count = cluster.watcher != NULL ? 2 : 1;
    for (size_t i = 0; i < *max_count; i++) {
        watchers[i] = (rbd_image_watcher_t){.addr = strdup(there[i])};
    }
    cluster.watchers_to_free += (unsigned)*max_count;
    return 0;
}

void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(watchers[i].addr);
        cluster.watchers_to_free--;
    }
}

/* ---- time, and who waits --------------------------------------------------------------------- */

static instant_ns clock_now;
static unsigned waits_left;     // until what is waited for happens; 0: it never does
static struct fence *listening; // whose end is waited for; NULL: the lock's owner's
static int longest_ms;          // that was waited for at once; -1: until it happens

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    *ret = (struct timespec){.tv_sec = (time_t)(clock_now / NS_PER_S),
                             .tv_nsec = (long)(clock_now % NS_PER_S)};
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    waits++;
    longest_ms = timeout_ms;
    bool has_happened = waits_left > 0 && --waits_left == 0;
    if (has_happened && listening != NULL) {
        fence_fini(listening);
        listening = NULL;
        return __real_poll(fds, count, 1000); // who waits hears of it
    }
    if (has_happened) {
        cluster.owner[0] = '\0';
    }
    assert_true(timeout_ms >= 0 && waits < 1000);
    clock_now += (instant_ns)timeout_ms * NS_PER_MS;
    return 0;
}

static unsigned said_count;
static char said[SAID_MAX];

static void on_wait(void *ctx, const char *who)
{
    assert_ptr_equal(ctx, said);
    said_count++;
    snprintf(said, sizeof said, "%s", who);
}

/* ---- the cases ------------------------------------------------------------------------------- */

// HERE in a record stands for this boot and network.
#define HERE "@"

struct taken {
    struct {
        const char *record, *last, *next;
    } past;
    const char *owner, *record, *watcher;
    // What comes of it.
    bool is_unbroken;
    int error;
    const char *told;
};

static void text_put(char ret[FENCE_ADDRESS_MAX], const char *text)
{
    snprintf(ret, FENCE_ADDRESS_MAX, "%s", text != NULL ? text : "");
}

// Its processes were those that have had the lock.
static void past_set(struct fence *fence, const struct taken *c)
{
    struct fence_kept kept = {.count = 2};
    text_put(kept.past.record, c->past.record);
    text_put(kept.past.last, c->past.last);
    text_put(kept.past.next, c->past.next);
    text_put(kept.processes[0], c->past.last);
    text_put(kept.processes[1], c->past.next);
    assert_int_equal(pwrite(fence->past_fd, &kept, sizeof kept, 0), sizeof kept);
}

static void past_is(const struct fence *fence, const char *record, const char *last,
                    const char *next)
{
    struct fence_past past;
    assert_int_equal(pread(fence->past_fd, &past, sizeof past, 0), sizeof past);
    assert_string_equal(past.record, record);
    assert_string_equal(past.last, last);
    assert_string_equal(past.next, next);
}

static void record_set(const struct fence *fence, const char *record)
{
    bool is_here = record != NULL && strncmp(record, HERE, strlen(HERE)) == 0;
    snprintf(cluster.record, sizeof cluster.record, "%s%s", is_here ? fence->here : "",
             record == NULL ? "" : record + (is_here ? strlen(HERE) : 0));
}

static void begin(struct fence *fence, const struct taken *c)
{
    memset(&cluster, 0, sizeof cluster);
    waits = waits_left = said_count = 0;
    listening = NULL;
    clock_now = 5 * NS_PER_S;
    assert_int_equal(fence_init(fence, -1), 0);
    assert_true(strlen(fence->here) > 40);
    past_set(fence, c);
    assert_int_equal(fence_begin(fence, NULL), 0);
    snprintf(cluster.owner, sizeof cluster.owner, "%s", c->owner != NULL ? c->owner : "");
    record_set(fence, c->record);
    cluster.watcher = c->watcher;
}

static const struct fence_patience no_patience = {.on_wait = NULL};
static const struct fence_patience patience = {
    .for_socket = 2 * NS_PER_S, .for_lock = NS_PER_S, .on_wait = on_wait, .ctx = said};

static int take(struct fence *fence, const struct fence_patience *with, bool *ret_is_unbroken,
                struct why *ret_why)
{
    *ret_is_unbroken = true;
    *ret_why = (struct why){""};
    int error = fence_take(fence, NULL, NULL, with, ret_is_unbroken, ret_why);
    assert_int_equal(cluster.owners_to_free, 0);
    assert_int_equal(cluster.watchers_to_free, 0);
    return error;
}

#define SETTLED(who)               \
    {                              \
        .record = who, .last = who \
    }

static const struct taken locks[] = {
    // Nobody's image.
    {.told = "take, record"},
    {.record = HERE " gone", .told = "take, record"},
    // A dead owner's, by what the cluster sees, by what this machine sees, by the keepsake.
    {.owner = "old", .told = "break old, take, record"},
    {.owner = "old", .watcher = "old", .record = HERE " old", .told = "break old, take, record"},
    {.past = SETTLED("old"),
     .owner = "old",
     .watcher = "old",
     .record = "away old",
     .is_unbroken = true,
     .told = "break old, take, record"},
    // While it changed hands: the one before, nobody, the next, and the next with a record.
    {.past = {"old", "old", "new"},
     .owner = "old",
     .record = HERE " old",
     .is_unbroken = true,
     .told = "shut out old, map, shut out new, map, break old, take, record"},
    {.past = {"old", "old", "new"},
     .record = HERE " old",
     .is_unbroken = true,
     .told = "shut out old, map, shut out new, map, take, record"},
    {.past = {"old", "old", "new"},
     .owner = "new",
     .record = HERE " old",
     .is_unbroken = true,
     .told = "shut out old, map, shut out new, map, break new, take, record"},
    {.past = {"old", "old", "new"},
     .owner = "new",
     .record = HERE " new",
     .is_unbroken = true,
     .told = "shut out old, map, shut out new, map, break new, take, record"},
    // The record is of one before the one before.
    {.past = {"older", "old", "new"},
     .owner = "new",
     .record = HERE " older",
     .is_unbroken = true,
     .told = "shut out old, map, shut out new, map, break new, take, record"},
    {.past = {"older", "", "new"},
     .record = HERE " older",
     .is_unbroken = true,
     .told = "shut out new, map, take, record"},
    // Nobody's, but not while it changed hands, or with a record: somebody has broken it.
    {.past = SETTLED("old"), .record = HERE " old", .told = "shut out old, map, take, record"},
    {.past = {"old", "old", "new"},
     .record = HERE " new",
     .told = "shut out old, map, shut out new, map, take, record"},
    // Another has had it, or has it.
    {.past = {"old", "old", "new"},
     .record = HERE " third",
     .told = "shut out old, map, shut out new, map, take, record"},
    {.past = SETTLED("old"),
     .owner = "old",
     .record = HERE " third",
     .told = "break old, take, record"},
    {.past = SETTLED("old"),
     .owner = "third",
     .record = HERE " old",
     .told = "shut out old, map, break third, take, record"},
    {.past = SETTLED("old"), .owner = "old", .told = "break old, take, record"},
    {.past = SETTLED("old"), .owner = "old", .record = "nobody", .told = "break old, take, record"},
    // A predecessor has seen that.
    {.past = {"", "old", ""},
     .owner = "old",
     .record = HERE " old",
     .told = "break old, take, record"},
    {.past = {"", "old", "new"},
     .owner = "new",
     .record = HERE " new",
     .told = "shut out old, map, shut out new, map, break new, take, record"},
    // Another may have had it.
    {.past = SETTLED("old"),
     .owner = "old",
     .watcher = "third",
     .record = HERE " old",
     .told = "break old, take, record"},
    // A living owner: elsewhere, of another boot, or of a name that only begins so.
    {.owner = "old", .watcher = "old", .error = -EBUSY, .told = ""},
    {.owner = "old", .watcher = "old", .record = "away old", .error = -EBUSY, .told = ""},
    {.owner = "old", .watcher = "old", .record = HERE "x old", .error = -EBUSY, .told = ""},
    {.owner = "old", .watcher = "old", .record = HERE " other", .error = -EBUSY, .told = ""},
    {.past = SETTLED("older"),
     .owner = "old",
     .watcher = "old",
     .record = HERE " older",
     .error = -EBUSY,
     .told = "shut out older, map"},
};

static void whose_lock_is_taken_and_whose_past_is_unbroken(void **state)
{
    for (unsigned i = 0; i < sizeof locks / sizeof locks[0]; i++) {
        const struct taken *c = &locks[i];
        struct fence fence;
        struct why why;
        bool is_unbroken;
        begin(&fence, c);
        assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), c->error);
        assert_string_equal(cluster.told, c->told);
        if (c->error == 0) {
            assert_int_equal(is_unbroken, c->is_unbroken);
            past_is(&fence, c->is_unbroken ? "self" : "", "self", "");
            char record[TEXT_MAX];
            snprintf(record, sizeof record, "%s self", fence.here);
            assert_string_equal(cluster.record, record);
            assert_false(why_is_said(&why));
        } else {
            past_is(&fence, "", "", "self");
            assert_string_equal(why.text, "old has the image's exclusive lock, and lives");
        }
        assert_int_equal(waits, 0);
        fence_fini(&fence);
    }
}

static const struct {
    const char *call;
    int error, expected;
    const char *why, *told, *past[3];
} refusals[] = {
    {"get",
     -EIO,
     -EIO,
     "the owner of the image's lock",
     "shut out old, map, shut out new, map",
     {"old", "old", "new"}},
    {"owners", -EPERM, -EPERM, "the owner of the image's lock", "", {"old", "old", "new"}},
    {"shut out",
     -EPERM,
     -EPERM,
     "shutting out the process before",
     "shut out old",
     {"old", "old", "new"}},
    {"map",
     -ETIMEDOUT,
     -ETIMEDOUT,
     "shutting out the process before",
     "shut out old, map",
     {"old", "old", "new"}},
    {"break",
     -EPERM,
     -EPERM,
     "the image's exclusive lock",
     "shut out old, map, shut out new, map, break old",
     {"old", "old", "self"}},
    {"break",
     -ENOENT,
     0,
     "",
     "shut out old, map, shut out new, map, break old, shut out old, map, take, record",
     {"self", "self", ""}},
    {"break",
     -EBUSY,
     -EBUSY,
     "has the image's exclusive lock, and lives",
     "shut out old, map, shut out new, map, break old, shut out old, map",
     {"", "", "self"}},
    {"take",
     -EIO,
     -EIO,
     "the image's exclusive lock",
     "shut out old, map, shut out new, map, break old, take",
     {"old", "old", "self"}},
    {"take",
     -EROFS,
     -EBUSY,
     "has the image's exclusive lock, and lives",
     "shut out old, map, shut out new, map, break old, take",
     {"", "", "self"}},
    {"set",
     -EIO,
     -EIO,
     "the record of the image's owner",
     "shut out old, map, shut out new, map, break old, take, record",
     {"", "", "self"}},
    {"get",
     -ERANGE,
     0,
     "",
     "shut out old, map, shut out new, map, break old, take, record",
     {"", "self", ""}},
};

static void each_refusal_of_the_cluster_is_passed_on(void **state)
{
    static const struct taken c = {
        .past = {"old", "old", "new"}, .owner = "old", .record = HERE " old"};
    for (unsigned i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct fence fence;
        struct why why;
        bool is_unbroken;
        begin(&fence, &c);
        cluster.fails = refusals[i].call;
        cluster.error = refusals[i].error;
        assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), refusals[i].expected);
        assert_non_null(strstr(why.text, refusals[i].why));
        assert_string_equal(cluster.told, refusals[i].told);
        assert_false(is_unbroken && refusals[i].expected != 0);
        past_is(&fence, refusals[i].past[0], refusals[i].past[1], refusals[i].past[2]);
        fence_fini(&fence);
    }
}

// It gave the lock back, and has stopped watching, between our looking and our breaking.
static void a_client_that_has_left_is_not_shut_out(void **state)
{
    static const struct taken c = {.past = SETTLED("old"), .owner = "third", .record = HERE " old"};
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &c);
    cluster.fails = "break";
    cluster.error = -ENOENT;
    assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), 0);
    assert_string_equal(cluster.told, "shut out old, map, break third, take, record");
    assert_false(is_unbroken);
    fence_fini(&fence);
}

static void a_process_whose_address_is_not_told_begins_nothing(void **state)
{
    struct fence fence;
    begin(&fence, &(struct taken){0});
    cluster.fails = "addrs";
    cluster.error = -EIO;
    assert_int_equal(fence_begin(&fence, NULL), -EIO);
    fence_fini(&fence);
}

static void a_broken_past_is_whole_again_when_nothing_is_left_of_it(void **state)
{
    static const struct taken c = {.past = SETTLED("old"), .owner = "old", .record = HERE " third"};
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &c);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), 0);
        assert_false(is_unbroken);
        text_put(cluster.owner, "self");
    }
    assert_int_equal(fence_settle(&fence), 0);
    past_is(&fence, "self", "self", "");
    assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), 0);
    assert_true(is_unbroken);
    fence_fini(&fence);
}

// Their watches last for half a minute, and they are many while one after the other is killed.
static void who_watches_and_was_killed_before_the_lock_was_ours_is_no_stranger(void **state)
{
    struct fence fence;
    struct why why;
    bool is_unbroken;
    for (unsigned after = FENCE_PROCESS_COUNT_MAX - 1; after <= FENCE_PROCESS_COUNT_MAX; after++) {
        begin(&fence,
              &(struct taken){.past = SETTLED("old"), .owner = "old", .record = HERE " old"});
        cluster.watcher = "killed";
        cluster.self = "killed";
        assert_int_equal(fence_begin(&fence, NULL), 0);
        cluster.self = NULL;
        for (unsigned i = 0; i < after; i++) {
            assert_int_equal(fence_begin(&fence, NULL), 0);
        }
        assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), 0);
        assert_int_equal(is_unbroken, after < FENCE_PROCESS_COUNT_MAX);
        fence_fini(&fence);
    }
}

static void who_cannot_be_found_out_about_lives(void **state)
{
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &(struct taken){.owner = "old"});
    cluster.fails = "watchers";
    cluster.error = -EIO;
    assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), -EBUSY);
    fence_fini(&fence);
}

static void a_record_that_changes_before_the_lock_is_ours_breaks_the_past(void **state)
{
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &(struct taken){.past = SETTLED("old"), .owner = "old", .record = HERE " old"});
    cluster.other = "away third";
    assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), 0);
    assert_false(is_unbroken);
    fence_fini(&fence);
}

static void a_living_owner_is_waited_for_as_long_as_he_may(void **state)
{
    static const struct taken c = {.owner = "old", .watcher = "old"};
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &c);
    assert_int_equal(take(&fence, &patience, &is_unbroken, &why), -EBUSY);
    assert_int_equal(clock_now, 6 * NS_PER_S);
    assert_int_equal(waits, 4); // it is looked again four times a second
    assert_int_equal(said_count, 1);
    assert_string_equal(said, "old has the image's exclusive lock, and lives");
    fence_fini(&fence);

    begin(&fence, &c);
    waits_left = 3;
    assert_int_equal(take(&fence, &patience, &is_unbroken, &why), 0);
    assert_int_equal(waits, 3);
    assert_string_equal(cluster.told, "take, record");
    assert_false(is_unbroken);
    fence_fini(&fence);

    begin(&fence, &c);
    const struct fence_patience silent = {.for_lock = NS_PER_S};
    assert_int_equal(take(&fence, &silent, &is_unbroken, &why), -EBUSY);
    assert_int_equal(said_count, 0);
    fence_fini(&fence);
}

static void a_lock_whose_owner_is_no_longer_told_is_not_taken(void **state)
{
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &(struct taken){.owner = "old", .watcher = "old"});
    cluster.fails = "owners";
    cluster.error = -EIO;
    cluster.fails_after = 1;
    assert_int_equal(take(&fence, &patience, &is_unbroken, &why), -EIO);
    assert_string_equal(why.text, "the owner of the image's lock: Input/output error");
    assert_string_equal(cluster.told, "");
    fence_fini(&fence);
}

static void one_process_of_a_machine_has_an_image(void **state)
{
    struct fence first, second;
    begin(&first, &(struct taken){0});
    begin(&second, &(struct taken){0});
    char name[TEXT_MAX], other[TEXT_MAX];
    snprintf(name, sizeof name, "rbd-%d/a", getpid());
    snprintf(other, sizeof other, "rbd-%d/b", getpid());
    assert_int_equal(fence_enter(&first, name, &no_patience), 0);
    assert_int_equal(fence_enter(&first, name, &no_patience), 0); // it has it
    assert_int_equal(fence_enter(&second, name, &no_patience), -EBUSY);
    assert_int_equal(second.socket_fd, -1);
    assert_int_equal(waits, 0);

    assert_int_equal(fence_enter(&second, name, &patience), -EBUSY);
    assert_int_equal(clock_now, 7 * NS_PER_S);
    assert_int_equal(said_count, 1);
    assert_string_equal(said, "another process of this machine has it open");

    assert_int_equal(fence_enter(&second, other, &no_patience), 0);
    fence_fini(&second);
    fence_fini(&first);
}

static void the_end_of_who_has_an_image_is_heard_at_once(void **state)
{
    static const struct fence_patience endless = {.for_socket = INSTANT_NEVER};
    struct fence first, second;
    begin(&first, &(struct taken){0});
    begin(&second, &(struct taken){0});
    char name[TEXT_MAX];
    snprintf(name, sizeof name, "rbd-%d/c", getpid());
    assert_int_equal(fence_enter(&first, name, &no_patience), 0);
    listening = &first;
    waits_left = 1;
    assert_int_equal(fence_enter(&second, name, &endless), 0);
    assert_int_equal(longest_ms, -1);
    assert_int_equal(waits, 1);
    fence_fini(&second);
}

static void a_keepsake_is_the_successors(void **state)
{
    struct fence first, second;
    begin(&first, &(struct taken){.past = {"oldest", "old", "new"}});
    assert_int_equal(fence_init(&second, dup(first.past_fd)), 0);
    past_is(&second, "oldest", "old", "new");
    int kept = second.past_fd;
    fence_fini(&first);
    past_is(&second, "oldest", "old", "new");
    fence_fini(&second);
    assert_int_equal(pread(kept, &kept, 1, 0), -1); // it was closed
}

static void a_keepsake_that_is_cut_says_nothing(void **state)
{
    struct fence fence;
    struct why why;
    bool is_unbroken;
    begin(&fence, &(struct taken){.past = {"older", "old", ""},
                                  .owner = "old",
                                  .watcher = "old",
                                  .record = "away old"});
    assert_int_equal(ftruncate(fence.past_fd, sizeof(struct fence_past) - 1), 0);
    assert_int_equal(take(&fence, &no_patience, &is_unbroken, &why), -EBUSY);
    fence_fini(&fence);
}

static int descriptor_count(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static int descriptors_are_counted(void **state)
{
    *state = (void *)(intptr_t)descriptor_count();
    return 0;
}

static int descriptors_are_given_back(void **state)
{
    return descriptor_count() == (int)(intptr_t)*state ? 0 : -1;
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, descriptors_are_counted, descriptors_are_given_back)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(whose_lock_is_taken_and_whose_past_is_unbroken),
        CASE(each_refusal_of_the_cluster_is_passed_on),
        CASE(a_client_that_has_left_is_not_shut_out),
        CASE(a_process_whose_address_is_not_told_begins_nothing),
        CASE(a_broken_past_is_whole_again_when_nothing_is_left_of_it),
        CASE(who_watches_and_was_killed_before_the_lock_was_ours_is_no_stranger),
        CASE(who_cannot_be_found_out_about_lives),
        CASE(a_record_that_changes_before_the_lock_is_ours_breaks_the_past),
        CASE(a_living_owner_is_waited_for_as_long_as_he_may),
        CASE(a_lock_whose_owner_is_no_longer_told_is_not_taken),
        CASE(one_process_of_a_machine_has_an_image),
        CASE(the_end_of_who_has_an_image_is_heard_at_once),
        CASE(a_keepsake_is_the_successors),
        CASE(a_keepsake_that_is_cut_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
