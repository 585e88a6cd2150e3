// Memory that is taken back, and connections that end, while a peer of this host says that it is
// inside of a Write past the stream: here a thread of this process, in the peer's name. The call
// that takes it back waits, and nobody else.

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/key_mirror.h"
#include "base/port_push.h"
#include "host/clock.h"
#include "link/local/local.h"
#include "link/local/stream.h"
#include "link/socket.h"
#include "rnic/ep/ep.h"
#include "tests/rnic/device.h"

enum { LEN = 256, SOME_MS = 50 };

// Two devices, and two connections between them; `a` writes into the memory of `b`.
struct world {
    struct device a, b;
    struct end listener, active[2], passive[2];
};

static atomic_bool is_in, may_leave;

static void open_device(struct device *d)
{
    const struct link_socket_config socket_config = {.peer_timeout_ns = DEVICE_PATIENCE_NS};
    const struct link_local_config local_config = {
        .ring_len = LINK_LOCAL_RING_LEN, .clock = host_clock, .rights = KEY_MAY_WRITE};
    struct rnic_parts parts = {.config = device_config(), .clock = host_clock};
    parts.config.crc = false;
    assert_int_equal(link_socket_create(&socket_config, &parts.link), 0);
    assert_int_equal(link_local_wrap(parts.link, &local_config, &parts.link), 0);
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    device_open_parts(d, &parts);
}

// Writes go by the stream until the peer has let this end in, and while its thread is awake.
static void write_past_the_stream(struct world *w)
{
    const uint64_t before = device_count(&w->a, "local.pushes");
    const instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (device_count(&w->a, "local.pushes") == before) {
        assert_true(host_clock(NULL) < deadline_ns);
        end_post_send(&w->active[0], WQE_RDMA_WRITE, 0, LEN, &w->b, 0);
        assert_int_equal(device_poll(&w->a).status, WC_SUCCESS);
        pause_ms(1);
    }
}

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct sockaddr_in addr;
    open_device(&w->a);
    open_device(&w->b);
    end_listen(&w->listener, &w->b, &addr);
    for (unsigned i = 0; i < 2; i++) {
        end_init(&w->active[i], &w->a);
        end_init(&w->passive[i], &w->b);
        end_connect(&w->active[i], &addr);
        end_take_request(&w->passive[i], &w->listener);
        end_accept(&w->passive[i]);
        end_take(&w->active[i], RNIC_EP_ESTABLISHED);
        end_take(&w->passive[i], RNIC_EP_ESTABLISHED);
    }
    write_past_the_stream(w);
    atomic_store(&is_in, false);
    atomic_store(&may_leave, false);
    *state = w;
    return 0;
}

static int end(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 2; i++) {
        end_fini(&w->active[i]);
        if (w->passive[i].qp != NULL) {
            end_fini(&w->passive[i]);
        }
    }
    end_fini(&w->listener);
    device_close(&w->a);
    device_close(&w->b);
    free(w);
    return 0;
}

/* ---- who says that he is in ------------------------------------------------------------------ */

struct liar {
    struct local_slot *slot;
    uint64_t generation;
};

static bool key_of_b(struct world *w, struct key *ret)
{
    struct link *link = w->b.rnic->shard.link;
    return key_mirror_find(link->pushes->mirror(link), w->b.stag, ret);
}

// By what `a` sees of the memory of both.
static struct liar liar_of(struct world *w)
{
    const struct local_stream *s = local_stream_of(w->passive[0].ep->stream);
    struct key key;
    assert_true(key_of_b(w, &key));
    return (struct liar){local_memory_slot(&s->memory, local_other_side(s->side)), key.generation};
}

// Runs on and on, as a copy may. ThreadSanitizer's atomics would sleep in a call, which is seen to
// be another.
__attribute__((no_sanitize("thread"))) static void *linger(void *arg)
{
    const struct liar *liar = arg;
    atomic_store(&liar->slot->thread, (uint64_t)gettid());
    atomic_store(&liar->slot->turn, atomic_load(&liar->slot->turn) + 1);
    atomic_store(&liar->slot->generation, liar->generation);
    atomic_store(&is_in, true);
    while (!atomic_load(&may_leave)) {
    }
    atomic_store(&liar->slot->generation, 0);
    return NULL;
}

/* ---- who wants him out ----------------------------------------------------------------------- */

struct call {
    struct world *world;
    void (*make)(struct world *w);
    atomic_bool is_done;
};

static void *call_main(void *arg)
{
    struct call *c = arg;
    c->make(c->world);
    atomic_store(&c->is_done, true);
    return NULL;
}

// The call returns when he has left, and not before; meanwhile b serves everybody else.
static void expect_to_wait_alone(struct world *w, void (*make)(struct world *w))
{
    struct call c = {.world = w, .make = make};
    struct liar liar = liar_of(w);
    pthread_t caller, thread;
    uint32_t pd;
    assert_int_equal(pthread_create(&thread, NULL, linger, &liar), 0);
    while (!atomic_load(&is_in)) {
    }
    assert_int_equal(pthread_create(&caller, NULL, call_main, &c), 0);
    pause_ms(SOME_MS); // it is under way
    assert_int_equal(rnic_pd_alloc(w->b.rnic, &pd), 0);
    assert_int_equal(rnic_pd_dealloc(w->b.rnic, pd), 0);
    end_post_recv(&w->passive[1], 7, 0, LEN);
    end_post_send(&w->active[1], WQE_SEND, 0, LEN, &w->b, 0);
    assert_int_equal(device_poll(&w->b).qp_num, w->passive[1].qp->qp_num);
    device_poll(&w->a);
    const bool was_done = atomic_load(&c.is_done);
    atomic_store(&may_leave, true);
    pthread_join(thread, NULL);
    pthread_join(caller, NULL);
    assert_false(was_done);
}

static void deregister(struct world *w)
{
    assert_int_equal(rnic_region_deregister(w->b.rnic, w->b.stag), 0);
}

static void who_takes_memory_back_waits_alone_for_who_writes_into_it(void **state)
{
    struct world *w = *state;
    struct key key;
    expect_to_wait_alone(w, deregister);
    assert_false(key_of_b(w, &key));
    device_register(&w->b);
}

static void move_to_error(struct world *w)
{
    assert_int_equal(rnic_qp_modify(w->passive[0].qp, QP_ERR), 0);
}

static void who_ends_a_queue_pair_waits_alone_for_who_writes_by_it(void **state)
{
    expect_to_wait_alone(*state, move_to_error);
}

static void destroy(struct world *w)
{
    end_fini(&w->passive[0]);
    w->passive[0].qp = NULL;
}

static void who_destroys_a_queue_pair_waits_alone_for_who_writes_by_it(void **state)
{
    expect_to_wait_alone(*state, destroy);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_takes_memory_back_waits_alone_for_who_writes_into_it),
        CASE(who_ends_a_queue_pair_waits_alone_for_who_writes_by_it),
        CASE(who_destroys_a_queue_pair_waits_alone_for_who_writes_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
