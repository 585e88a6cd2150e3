// A process that has an image of Ceph is killed, and so are its successors while they take the
// lock: before and behind each call to the cluster, or with that call still on its way, and another
// client does what it likes in between. Whatever the order, what was left is submitted again if and
// only if nobody else has had the lock, and whoever has had it is shut out before the next one has.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <cmocka.h>

#include "base/time.h"
#include "base/why.h"
#include "node/rbd/fence.h"

enum {
    STRANGER = 9, // one address among those of processes, which count from 0
    CLIENT_COUNT = 10,
    NOBODY = CLIENT_COUNT,
    KILL_COUNT_MAX = 3,
    STEP_COUNT_MAX = 16, // more than a process has
    NEVER = 1000,
};

/* ---- what happens ---------------------------------------------------------------------------- */

// How a process ends in a call: it has not been sent, it has been carried out, it is on its way.
enum kill_way { KILL_BEFORE, KILL_BEHIND, KILL_LATE, KILL_WAY_COUNT };

// What another client does as soon as it can.
enum deed {
    DEED_GIVES_BACK, // has the lock, writes, and gives it back to who asks
    DEED_HOLDS,      // has the lock and keeps it
    DEED_BREAKS,     // takes a dead owner's lock away, and does not take it
    DEED_COUNT,
};

struct story {
    unsigned kill_count;
    struct {
        unsigned step; // of its process
        enum kill_way way;
    } kills[KILL_COUNT_MAX];
    unsigned late_at; // steps of all processes before what was on its way arrives
    unsigned deed_at; // ... and before the other client's deed; NEVER: there is none
    enum deed deed;
};

/* ---- the cluster ----------------------------------------------------------------------------- */

static struct {
    unsigned owner;  // of the lock
    unsigned record; // whose it is
    bool is_dead[CLIENT_COUNT], is_shut_out[CLIENT_COUNT], is_watching[CLIENT_COUNT];
    bool has_had_lock[CLIENT_COUNT];
    void (*late)(unsigned client); // on its way
    unsigned late_client;
} cluster;

static struct story story;
static unsigned self;        // the process at work
static unsigned step;        // its own
static unsigned step_of_all; // since the first one was killed
static bool is_first;        // nobody is killed yet
static bool has_stalled;     // a dead client's lock was waited for
static char here[FENCE_HERE_MAX];
static jmp_buf killed;

static unsigned client_of(const char *address)
{
    return (unsigned)(address[1] - '0');
}

static void address_put(unsigned client, char ret[3])
{
    snprintf(ret, 3, "c%u", client % 10);
}

static void lock_put(unsigned client)
{
    cluster.owner = client;
    cluster.has_had_lock[client] = true;
}

static void late_arrive(void)
{
    if (cluster.late != NULL && !cluster.is_shut_out[cluster.late_client]) {
        cluster.late(cluster.late_client);
    }
    cluster.late = NULL;
}

static bool deed_do(void)
{
    bool is_free = cluster.owner == NOBODY, is_dead = !is_free && cluster.is_dead[cluster.owner];
    if (!is_free && !is_dead) {
        return false;
    }
    if (is_dead) {
        cluster.is_shut_out[cluster.owner] = true;
        cluster.owner = NOBODY;
    }
    if (story.deed != DEED_BREAKS) {
        cluster.is_watching[STRANGER] = true;
        lock_put(STRANGER);
    }
    return true;
}

static void world_turn(void)
{
    if (is_first) {
        return;
    }
    step_of_all++;
    if (step_of_all >= story.late_at) {
        late_arrive();
    }
    if (step_of_all >= story.deed_at && deed_do()) {
        story.deed_at = NEVER;
    }
}

static bool dies(enum kill_way way)
{
    return !is_first && self - 1 < story.kill_count && story.kills[self - 1].step == step &&
           story.kills[self - 1].way == way;
}

// One call of the process at work, and its effect, which may be NULL.
static void call(void (*effect)(unsigned client))
{
    world_turn();
    if (dies(KILL_BEFORE)) {
        longjmp(killed, 1);
    }
    if (dies(KILL_LATE)) {
        cluster.late = effect;
        cluster.late_client = self;
        longjmp(killed, 1);
    }
    if (effect != NULL) {
        effect(self);
    }
    if (dies(KILL_BEHIND)) {
        longjmp(killed, 1);
    }
    step++;
}

int rados_getaddrs(rados_t at, char **ret_addrs)
{
    char address[3];
    call(NULL);
    address_put(self, address);
    *ret_addrs = strdup(address);
    return 0;
}

static unsigned whom; // the call is about

static void shut_out(unsigned client)
{
    cluster.is_shut_out[whom] = true;
    cluster.is_watching[whom] = false;
}

int rados_blocklist_add(rados_t at, char *client_address, uint32_t expire_seconds)
{
    whom = client_of(client_address);
    call(shut_out);
    return 0;
}

int rados_wait_for_latest_osdmap(rados_t at)
{
    return 0;
}

int rbd_metadata_get(rbd_image_t image, const char *key, char *value, size_t *ret_len)
{
    call(NULL);
    char address[3];
    address_put(cluster.record, address);
    snprintf(value, *ret_len, "%s %s", here, address);
    return cluster.record != NOBODY ? 0 : -ENOENT;
}

static void record_put(unsigned client)
{
    cluster.record = client;
}

int rbd_metadata_set(rbd_image_t image, const char *key, const char *value)
{
    call(record_put);
    return 0;
}

int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *ret_mode, char **ret_owners,
                        size_t *max_count)
{
    call(NULL);
    if (cluster.owner == NOBODY) {
        return -ENOENT;
    }
    char address[3];
    address_put(cluster.owner, address);
    *ret_mode = RBD_LOCK_MODE_EXCLUSIVE;
    *ret_owners = strdup(address);
    *max_count = 1;
    return 0;
}

void rbd_lock_get_owners_cleanup(char **owners, size_t count)
{
    free(*owners);
}

static void lock_break(unsigned client)
{
    if (cluster.owner == whom) {
        shut_out(client);
        cluster.owner = NOBODY;
    }
}

int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t mode, const char *owner)
{
    whom = client_of(owner);
    world_turn();
    if (cluster.owner != whom) {
        return cluster.owner == NOBODY ? -ENOENT : -EBUSY;
    }
    assert_true(cluster.is_dead[whom]);
    call(lock_break);
    return 0;
}

// A living owner's lock is asked for; a dead one's is broken, once its watch is over.
static void lock_take(unsigned client)
{
    bool is_anybodys = cluster.owner != NOBODY && cluster.owner != client;
    if (is_anybodys && !cluster.is_dead[cluster.owner] && story.deed == DEED_HOLDS) {
        return;
    }
    if (is_anybodys && cluster.is_dead[cluster.owner]) {
        has_stalled |= cluster.is_watching[cluster.owner];
        cluster.is_shut_out[cluster.owner] = true;
    }
    lock_put(client);
}

int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t mode)
{
    call(lock_take);
    for (unsigned i = 0; i < CLIENT_COUNT && cluster.owner == self; i++) {
        assert_true(!cluster.is_dead[i] || !cluster.has_had_lock[i] || cluster.is_shut_out[i]);
    }
    return cluster.owner == self ? 0 : -EROFS;
}

int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *max_count)
{
    size_t count = 0;
    call(NULL);
    for (unsigned i = 0; i < CLIENT_COUNT; i++) {
        if (cluster.is_watching[i]) {
            char address[3];
            address_put(i, address);
            watchers[count++] = (rbd_image_watcher_t){.addr = strdup(address)};
        }
    }
    *max_count = count;
    return 0;
}

void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(watchers[i].addr);
    }
}

/* ---- the keepsake ---------------------------------------------------------------------------- */

// Memory here, which costs less than a file by the hundred thousand.
static uint8_t keepsake[sizeof(struct fence_kept)];

ssize_t __wrap_pread64(int fd, void *to, size_t len, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t len, off_t offset);

ssize_t __wrap_pread64(int fd, void *to, size_t len, off_t offset)
{
    assert_true((size_t)offset + len <= sizeof keepsake);
    memcpy(to, keepsake + offset, len);
    return (ssize_t)len;
}

ssize_t __wrap_pwrite64(int fd, const void *from, size_t len, off_t offset)
{
    assert_true((size_t)offset + len <= sizeof keepsake);
    memcpy(keepsake + offset, from, len);
    return (ssize_t)len;
}

/* ---- processes ------------------------------------------------------------------------------- */

static struct fence kept; // the keepsake's, as each process finds it

static void watch(unsigned client)
{
    cluster.is_watching[client] = true;
}

struct outcome {
    int error;
    bool is_unbroken;
    unsigned step_count;
};

static int take(struct fence *fence, bool *ret_is_unbroken)
{
    static const struct fence_patience no_patience = {.on_wait = NULL};
    struct why why;
    int error = fence_begin(fence, NULL);
    if (error == 0) {
        call(watch); // it opens the image
        error = fence_take(fence, NULL, NULL, &no_patience, ret_is_unbroken, &why);
    }
    return error;
}

// One process, which may be killed; true: it was.
static bool process_run(unsigned number, struct outcome *ret)
{
    static struct fence fence;
    static int error;
    static bool is_unbroken;
    fence = kept;
    self = number;
    step = 0;
    if (setjmp(killed) != 0) {
        cluster.is_dead[number] = true;
        return true;
    }
    error = take(&fence, &is_unbroken);
    call(NULL); // what was left fails, or is submitted
    *ret = (struct outcome){.error = error, .is_unbroken = is_unbroken, .step_count = step};
    return false;
}

static void story_run(const struct story *what, struct outcome *ret)
{
    memset(&cluster, 0, sizeof cluster);
    cluster.owner = cluster.record = NOBODY;
    story = *what;
    step_of_all = 0;
    has_stalled = false;
    is_first = true;
    memset(keepsake, 0, sizeof keepsake);
    assert_false(process_run(0, ret));
    assert_int_equal(ret->error, 0);
    assert_int_equal(fence_settle(&kept), 0);
    cluster.is_dead[0] = true;
    is_first = false;
    unsigned number = 1;
    while (process_run(number, ret)) {
        number++;
        assert_true(number <= KILL_COUNT_MAX + 1);
    }
}

static unsigned failed_count;

static void expect(bool is_met, const char *what, unsigned deed_at)
{
    if (is_met) {
        return;
    }
    if (failed_count++ < 10) {
        print_message("%s: killed", what);
        for (unsigned i = 0; i < story.kill_count; i++) {
            print_message(" %s step %u",
                          (const char *[]){"before", "behind", "in"}[story.kills[i].way],
                          story.kills[i].step);
        }
        print_message("; late at %u, deed %d at %u\n", story.late_at, (int)story.deed, deed_at);
    }
}

static void story_judge(const struct story *what)
{
    struct outcome outcome;
    story_run(what, &outcome);
    bool had_it = cluster.has_had_lock[STRANGER];
    bool is_held = outcome.error == -EBUSY && had_it;
    assert_true(outcome.step_count < STEP_COUNT_MAX);
    expect(outcome.error == 0 || is_held, "refused", what->deed_at);
    expect(!has_stalled, "stalled", what->deed_at);
    expect(!had_it || !outcome.is_unbroken, "submitted behind another owner", what->deed_at);
    expect(what->deed_at != NEVER || outcome.is_unbroken, "refused what was nobody else's",
           what->deed_at);
}

// All ways to kill `count` processes one after the other; the first of several behind its calls.
static void each_way_to_kill(struct story *one, unsigned count, void (*go_on)(struct story *one))
{
    if (one->kill_count == count) {
        go_on(one);
        return;
    }
    unsigned number = one->kill_count++;
    bool is_brief = number == 0 && count > 1;
    for (unsigned i = 0; i < STEP_COUNT_MAX * 2; i++) {
        one->kills[number].step = i / 2;
        one->kills[number].way = i % 2 == 0 ? KILL_BEFORE : KILL_BEHIND;
        if (!is_brief || one->kills[number].way == KILL_BEHIND) {
            each_way_to_kill(one, count, go_on);
        }
    }
    one->kill_count--;
}

static void alone(struct story *one)
{
    one->deed_at = one->late_at = NEVER;
    story_judge(one);
}

static void beside_a_deed(struct story *one, enum deed deed)
{
    one->late_at = NEVER;
    one->deed = deed;
    for (unsigned at = 0; at < (one->kill_count + 1) * STEP_COUNT_MAX; at++) {
        one->deed_at = at;
        story_judge(one);
    }
}

static void beside_who_gives_back(struct story *one)
{
    beside_a_deed(one, DEED_GIVES_BACK);
}

static void beside_another_client(struct story *one)
{
    for (unsigned deed = 0; deed < DEED_COUNT; deed++) {
        beside_a_deed(one, (enum deed)deed);
    }
}

// The first one's last call arrives at any time, while a second one is at work or was killed.
static void with_one_call_late(struct story *one)
{
    one->deed_at = NEVER;
    enum kill_way way = one->kills[0].way;
    one->kills[0].way = KILL_LATE;
    for (unsigned at = 0; at < 2 * STEP_COUNT_MAX; at++) {
        one->late_at = at;
        story_judge(one);
    }
    one->kills[0].way = way;
}

static void judge_each(unsigned kill_count, void (*go_on)(struct story *one))
{
    struct story one = {.kill_count = 0};
    failed_count = 0;
    each_way_to_kill(&one, kill_count, go_on);
    assert_int_equal(failed_count, 0);
}

static void what_nobody_else_had_is_submitted_again_however_many_are_killed(void **state)
{
    judge_each(0, alone);
    judge_each(3, alone);
}

static void nothing_is_submitted_behind_another_owner(void **state)
{
    judge_each(0, beside_another_client);
    judge_each(1, beside_another_client);
}

static void a_call_of_the_killed_that_comes_late_changes_nothing(void **state)
{
    judge_each(1, with_one_call_late);
    judge_each(2, with_one_call_late);
}

static void who_sees_the_past_broken_hands_that_on(void **state)
{
    judge_each(2, beside_who_gives_back);
}

static int setup(void **state)
{
    int error = fence_init(&kept, -1);
    memcpy(here, kept.here, sizeof here);
    return error;
}

static int teardown(void **state)
{
    fence_fini(&kept);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_else_had_is_submitted_again_however_many_are_killed),
        cmocka_unit_test(nothing_is_submitted_behind_another_owner),
        cmocka_unit_test(a_call_of_the_killed_that_comes_late_changes_nothing),
        cmocka_unit_test(who_sees_the_past_broken_hands_that_on),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
