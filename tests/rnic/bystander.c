#include "tests/rnic/bystander.h"

#include <string.h>

static void expect_completion(struct bystander *b)
{
    struct cqe cqe = device_poll(&b->own);
    assert_int_equal(cqe.status, 0);
}

static void *bystander_main(void *arg)
{
    struct bystander *b = arg;
    struct device *there = b->passive.device;
    uint8_t *out = b->own.buf, *back = b->own.buf + BYSTANDER_LEN;
    while (!atomic_load(&b->is_over)) {
        unsigned round = atomic_load(&b->rounds) + 1;
        memset(out, (int)round, BYSTANDER_LEN);
        end_post_send(&b->active, WQE_RDMA_WRITE, 0, BYSTANDER_LEN, there, 0);
        end_post_send(&b->active, WQE_RDMA_READ, BYSTANDER_LEN, BYSTANDER_LEN, there, 0);
        expect_completion(b);
        expect_completion(b);
        assert_memory_equal(back, out, BYSTANDER_LEN);
        atomic_store(&b->rounds, round);
        pause_ms(1);
    }
    return NULL;
}

void bystander_start(struct bystander *b, struct device *under_attack)
{
    const struct rnic_config config = device_config();
    struct sockaddr_in addr;
    memset(b, 0, sizeof *b);
    device_open(&b->own, &config, 0);
    end_listen(&b->listener, under_attack, &addr);
    end_init(&b->active, &b->own);
    end_init(&b->passive, under_attack);
    ends_connect(&b->active, &b->passive, &b->listener, &addr);
    assert_int_equal(pthread_create(&b->thread, NULL, bystander_main, b), 0);
}

void bystander_expect_progress(struct bystander *b)
{
    unsigned before = atomic_load(&b->rounds);
    for (unsigned i = 0; atomic_load(&b->rounds) < before + 2; i++) {
        assert_true(i < 20000);
        pause_ms(1);
    }
}

void bystander_stop(struct bystander *b)
{
    bystander_expect_progress(b);
    atomic_store(&b->is_over, true);
    pthread_join(b->thread, NULL);
    assert_false(end_has_event(&b->active));
    assert_false(end_has_event(&b->passive));
    end_fini(&b->active);
    end_fini(&b->passive);
    end_fini(&b->listener);
    device_close(&b->own);
}
