// The background thread of a shard: it drives what no program's thread does, since the target of
// RDMA Writes and Reads makes no call at all. While a program polls hard the thread stands back and
// looks every 100 us, up to 500 us when it goes on for long, whether the polling has ended; arming
// ends it at once. While nothing is to be done it sleeps in the link, without a time-out if there
// is no deadline.
//
// While loops of programs drive (drive.c) it stands by. As long as they come it naps, and looks
// every 10 ms whether they do; when they have nothing to do it watches the link as they do, without
// taking anything. It makes a pass itself when something is there that none of them has taken for
// the time of a nap, and at deadlines, which are its own.

#include <poll.h>
#include <signal.h>
#include <time.h>

#include "link/sys.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/puller.h"
#include "rnic/shard.h"

enum { THREAD_STACK_LEN = 256 * 1024 };

// A program that has not polled for so long has stopped polling.
static const duration_ns polling_gap_ns = 100 * NS_PER_US;

static const duration_ns stand_back_max_ns = 500 * NS_PER_US;

static bool program_drives(struct shard *shard, instant_ns now)
{
    if (!atomic_load_explicit(&shard->is_polled, memory_order_acquire)) {
        return false;
    }
    instant_ns at = atomic_load_explicit(&shard->polled_at_ns, memory_order_relaxed);
    if (now < instant_after(at, polling_gap_ns)) {
        return true;
    }
    atomic_store_explicit(&shard->is_polled, false, memory_order_release);
    return false;
}

// The longer the program has polled without a break, the longer it is left alone: each look costs
// it a preemption where there is no processor to spare. Who has given his processor away is not
// looked after before he may be back.
static instant_ns stand_back_until(const struct shard *shard, instant_ns now,
                                   duration_ns polled_for_ns)
{
    instant_ns at = atomic_load_explicit(&shard->polled_at_ns, memory_order_relaxed);
    instant_ns stopped_ns = instant_after(at, polling_gap_ns); // if that was the last poll
    instant_ns look_ns = instant_after(now, instant_min(polled_for_ns / 16, stand_back_max_ns));
    return stopped_ns > look_ns ? stopped_ns : look_ns;
}

// ... or until shard_end_polling says that the polling is over. Either that finds it waiting, or is
// seen here.
static void stand_back(struct shard *shard, instant_ns until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                   .tv_nsec = (long)(until_ns % NS_PER_S)};
    pthread_mutex_lock(&shard->standing_lock);
    atomic_store_explicit(&shard->is_standing_back, true, memory_order_seq_cst);
    if (atomic_load_explicit(&shard->is_polled, memory_order_seq_cst) &&
        !atomic_load_explicit(&shard->is_stopping, memory_order_seq_cst)) {
        pthread_cond_timedwait(&shard->polling_ended, &shard->standing_lock, &until);
    }
    atomic_store_explicit(&shard->is_standing_back, false, memory_order_seq_cst);
    pthread_mutex_unlock(&shard->standing_lock);
}

static void recall(struct shard *shard)
{
    if (atomic_load_explicit(&shard->is_standing_back, memory_order_seq_cst)) {
        pthread_mutex_lock(&shard->standing_lock);
        pthread_cond_signal(&shard->polling_ended);
        pthread_mutex_unlock(&shard->standing_lock);
    }
}

void shard_end_polling(struct shard *shard)
{
    if (atomic_exchange_explicit(&shard->is_polled, false, memory_order_seq_cst)) {
        recall(shard);
    }
}

// Sleeps in the link until something is ready. What it finds is left for the pass under the lock,
// since a stream may be closed between the two.
static void sleep_in_link(struct shard *shard, instant_ns deadline_ns)
{
    instant_ns now = rnic_now(shard->rnic);
    if (deadline_ns <= now) {
        return;
    }
    duration_ns timeout_ns = deadline_ns == INSTANT_NEVER ? INSTANT_NEVER : deadline_ns - now;
    shard->carrier->link->sleep(shard, timeout_ns);
}

// Lock held. Posts that wait for company count on the thread, and so do Reads that wait for who
// copies them: it stays within reach, so that nobody has to wake it.
static instant_ns wake_up_at(const struct shard *shard)
{
    const instant_ns now = rnic_now(shard->rnic);
    instant_ns at_ns = shard_next_deadline(shard);
    if (gathering_is_likely(&shard->gathering, now)) {
        at_ns = instant_min(at_ns, instant_after(now, GATHERING_REACH_NS));
    }
    if (puller_returns(shard, now)) {
        at_ns = instant_min(at_ns, instant_after(now, PULLER_REACH_NS));
    }
    return at_ns;
}

/* ---- standing by ----------------------------------------------------------------------------- */

struct standby {
    bool has_begun; // else this thread may have had the link's attention
    bool is_needed; // nobody else takes what comes
    unsigned seen;  // passes of loops
};

// The thread says until when it will not look. False: by now there is a deadline before that.
static bool look_away(struct shard *shard, instant_ns until_ns)
{
    atomic_store_explicit(&shard->thread_until_ns, until_ns, memory_order_seq_cst);
    instant_ns at_ns = atomic_load_explicit(&shard->asleep_until_ns, memory_order_seq_cst);
    return at_ns == 0 || at_ns >= until_ns;
}

enum sight {
    SIGHT_NOTHING = 0,
    SIGHT_LINK = 1,   // there is something to be done
    SIGHT_ROUSED = 2, // somebody wants the thread to look what else there is
};

static enum sight wait_for(struct shard *shard, bool with_link, instant_ns until_ns)
{
    struct pollfd fds[] = {
        {.fd = shard->rouse_fd, .events = POLLIN},
        {.fd = with_link ? shard->carrier->link->descriptor(shard) : -1, .events = POLLIN}};
    instant_ns now = rnic_now(shard->rnic);
    duration_ns left_ns = until_ns <= now ? 0 : until_ns - now;
    struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                            .tv_nsec = (long)(left_ns % NS_PER_S)};
    uint64_t times;
    if (ppoll(fds, 2, until_ns == INSTANT_NEVER ? NULL : &left, NULL) <= 0) {
        return SIGHT_NOTHING;
    }
    if (fds[0].revents != 0) {
        sys_read(shard->rouse_fd, &times, sizeof times);
        return SIGHT_ROUSED;
    }
    return SIGHT_LINK;
}

static enum sight look_out(struct shard *shard, bool with_link, instant_ns until_ns)
{
    enum sight sight =
        look_away(shard, until_ns) ? wait_for(shard, with_link, until_ns) : SIGHT_ROUSED;
    look_away(shard, 0);
    return sight;
}

static void nap(struct shard *shard, instant_ns until_ns)
{
    look_out(shard, false, until_ns);
}

static void pass(struct shard *shard)
{
    do {
        shard_pass_awake(shard, NULL);
    } while (shard_fall_asleep(shard, false) == 0 &&
             !atomic_load_explicit(&shard->is_stopping, memory_order_acquire));
}

// Loops have come since the last look.
static bool have_come(const struct shard *shard, struct standby *s)
{
    unsigned count = atomic_load_explicit(&shard->loop_pass_count, memory_order_relaxed);
    bool have_come = count != s->seen;
    s->seen = count;
    return have_come;
}

static void stand_by(struct shard *shard, struct standby *s)
{
    instant_ns now = rnic_now(shard->rnic);
    instant_ns until_ns = atomic_load_explicit(&shard->asleep_until_ns, memory_order_seq_cst);
    instant_ns nap_until_ns = instant_after(now, SHARD_NAP_NS);
    bool is_due = until_ns != 0 && until_ns <= now;
    if (!s->has_begun || is_due) {
        s->has_begun = true;
        pass(shard);
    } else if (have_come(shard, s)) {
        s->is_needed = false;
        nap(shard, until_ns != 0 ? instant_min(until_ns, nap_until_ns) : nap_until_ns);
    } else {
        // 0: one of them is at something else meanwhile.
        enum sight sight = look_out(shard, true, until_ns != 0 ? until_ns : nap_until_ns);
        if (sight == SIGHT_LINK && !s->is_needed) {
            nap(shard, instant_after(rnic_now(shard->rnic), SHARD_NAP_NS));
            s->is_needed = !have_come(shard, s);
        } else if (sight == SIGHT_LINK || (sight == SIGHT_NOTHING && until_ns == 0)) {
            pass(shard);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *thread_main(void *arg)
{
    struct shard *shard = arg;
    instant_ns polled_since_ns = 0;
    struct standby standby = {0};
    while (!atomic_load_explicit(&shard->is_stopping, memory_order_acquire)) {
        instant_ns now = rnic_now(shard->rnic);
        if (program_drives(shard, now)) {
            standby.has_begun = false;
            polled_since_ns = polled_since_ns == 0 ? now : polled_since_ns;
            stand_back(shard, stand_back_until(shard, now, now - polled_since_ns));
            continue;
        }
        polled_since_ns = 0;
        if (atomic_load_explicit(&shard->loop_count, memory_order_acquire) > 0) {
            stand_by(shard, &standby);
            continue;
        }
        standby.has_begun = false;
        shard_lock(shard);
        bool moved = shard_run(shard, rnic_now(shard->rnic));
        bool is_busy =
            moved || !list_is_empty(&shard->runnable) || !shard->carrier->link->may_sleep(shard);
        instant_ns until_ns = is_busy ? 0 : wake_up_at(shard);
        atomic_store_explicit(&shard->asleep_until_ns, until_ns, memory_order_seq_cst);
        shard_unlock(shard);
        // Either a loop that begins to drive finds it there, or is found. Who ends the thread has
        // woken it, and the run may have taken that.
        atomic_store_explicit(&shard->is_thread_in_link, true, memory_order_seq_cst);
        if (atomic_load_explicit(&shard->loop_count, memory_order_seq_cst) == 0 &&
            !atomic_load_explicit(&shard->is_stopping, memory_order_acquire)) {
            sleep_in_link(shard, until_ns);
        }
        atomic_store_explicit(&shard->is_thread_in_link, false, memory_order_seq_cst);
        atomic_store_explicit(&shard->asleep_until_ns, 0, memory_order_seq_cst);
    }
    if (shard->rnic->flush.is_wanted) {
        rnic_flush_in_thread(shard->rnic);
    }
    return NULL;
}

int shard_thread_start(struct shard *shard)
{
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK_LEN);
    // The program's signals are the program's: the thread takes none.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    shard->has_thread = true; // which the thread itself may ask
    int error = pthread_create(&shard->thread, &attr, thread_main, shard);
    if (error != 0) {
        shard->has_thread = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -error;
}

void shard_thread_stop(struct shard *shard)
{
    if (!shard->has_thread) {
        return;
    }
    atomic_store_explicit(&shard->is_stopping, true, memory_order_seq_cst);
    recall(shard);
    shard_thread_rouse(shard);
    pthread_join(shard->thread, NULL);
    shard->has_thread = false;
}
