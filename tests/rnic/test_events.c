// When completion events are told: once behind what came together.
#include "cq/cq.h"
#include "host/clock.h"
#include "rnic/shard.h"
#include "tests/rnic/device.h"

enum { BURST = 32, MESSAGE_LEN = 64 };

// Whom the passive end's events are told.
struct sleeper {
    struct rnic_cq *cq;
    atomic_uint events;
    _Atomic uint64_t found; // completions that were there by the first of them
};

static void on_event(void *ctx)
{
    struct sleeper *s = ctx;
    if (atomic_fetch_add(&s->events, 1) == 0) {
        atomic_store(&s->found, cq_counters(s->cq->cq).pushed);
    }
}

struct stage {
    struct device active_device, passive_device;
    struct end active, passive, listener;
    struct rnic_cq *quiet;
    struct sleeper sleeper;
};

static void stage_open(struct stage *s)
{
    const struct rnic_config config = device_config();
    const struct cq_port port = {.on_event = on_event, .ctx = &s->sleeper};
    struct sockaddr_in addr;
    device_open(&s->active_device, &config, 0);
    device_open(&s->passive_device, &config, 0);
    s->quiet = s->passive_device.cq;
    assert_int_equal(
        rnic_cq_create(s->passive_device.rnic, DEVICE_DEPTH, &port, &s->passive_device.cq), 0);
    s->sleeper = (struct sleeper){.cq = s->passive_device.cq};
    end_listen(&s->listener, &s->passive_device, &addr);
    end_init(&s->active, &s->active_device);
    end_init(&s->passive, &s->passive_device);
    ends_connect(&s->active, &s->passive, &s->listener, &addr);
}

static void stage_close(struct stage *s)
{
    end_fini(&s->active);
    end_fini(&s->passive);
    end_fini(&s->listener);
    assert_int_equal(rnic_cq_destroy(s->passive_device.cq), 0);
    s->passive_device.cq = s->quiet;
    device_close(&s->active_device);
    device_close(&s->passive_device);
}

// Nobody can serve the bells meanwhile, so they leave in one system call, and arrive together.
static void send_burst(struct stage *s)
{
    struct shard *shard = &s->active_device.rnic->shard;
    shard_lock(shard);
    for (unsigned i = 0; i < BURST; i++) {
        end_post_send(&s->active, WQE_SEND, 0, MESSAGE_LEN, &s->passive_device, 0);
    }
    shard_unlock(shard);
}

static bool hears_of_event(struct sleeper *s)
{
    for (unsigned ms = 0; ms < DEVICE_PATIENCE_NS / NS_PER_MS && atomic_load(&s->events) == 0;
         ms++) {
        pause_ms(1);
    }
    return atomic_load(&s->events) > 0;
}

static void who_is_woken_finds_all_that_came_together(void **state)
{
    struct stage s;
    stage_open(&s);
    for (unsigned i = 0; i < BURST; i++) {
        end_post_recv(&s.passive, i, 0, MESSAGE_LEN);
    }
    rnic_cq_arm(s.passive_device.cq, false);
    send_burst(&s);
    assert_true(hears_of_event(&s.sleeper));
    assert_int_equal(atomic_load(&s.sleeper.found), BURST);
    for (unsigned i = 0; i < BURST; i++) {
        assert_int_equal(device_poll(&s.passive_device).status, WC_SUCCESS);
    }
    assert_int_equal(atomic_load(&s.sleeper.events), 1);
    stage_close(&s);
}

// ... and a message that comes alone is told of as before.
static void each_arming_is_told_of_its_message(void **state)
{
    enum { ROUNDS = 20 };
    struct stage s;
    stage_open(&s);
    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_store(&s.sleeper.events, 0);
        end_post_recv(&s.passive, i, 0, MESSAGE_LEN);
        rnic_cq_arm(s.passive_device.cq, false);
        end_post_send(&s.active, WQE_SEND, 0, MESSAGE_LEN, &s.passive_device, 0);
        assert_true(hears_of_event(&s.sleeper));
        assert_int_equal(device_poll(&s.passive_device).status, WC_SUCCESS);
    }
    stage_close(&s);
}

// The program has polled hard, and gave its processor away for long: its thread stands back.
static void have_thread_stand_back(struct shard *shard)
{
    atomic_store(&shard->polled_at_ns, host_clock(NULL) + 10 * DEVICE_PATIENCE_NS);
    atomic_store(&shard->is_polled, true);
    shard_thread_rouse(shard);
    for (unsigned ms = 0; ms < DEVICE_PATIENCE_NS / NS_PER_MS; ms++) {
        if (atomic_load(&shard->is_standing_back)) {
            return;
        }
        pause_ms(1);
    }
    fail_msg("the thread does not stand back");
}

static void who_arms_behind_polling_is_told_at_once(void **state)
{
    struct stage s;
    stage_open(&s);
    end_post_recv(&s.passive, 0, 0, MESSAGE_LEN);
    have_thread_stand_back(&s.passive_device.rnic->shard);
    rnic_cq_arm(s.passive_device.cq, false);
    end_post_send(&s.active, WQE_SEND, 0, MESSAGE_LEN, &s.passive_device, 0);
    assert_true(hears_of_event(&s.sleeper));
    stage_close(&s);
}

static void thread_that_stands_back_ends_with_its_device(void **state)
{
    struct stage s;
    stage_open(&s);
    have_thread_stand_back(&s.passive_device.rnic->shard);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_woken_finds_all_that_came_together),
        cmocka_unit_test(each_arming_is_told_of_its_message),
        cmocka_unit_test(who_arms_behind_polling_is_told_at_once),
        cmocka_unit_test(thread_that_stands_back_ends_with_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
