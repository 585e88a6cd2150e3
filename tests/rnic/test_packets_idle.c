// What a reliable queue pair on packets costs while nothing happens: pages, not addresses, so what
// is only there for losses and for many packets out has to cost nothing before.
#include <malloc.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/rnic/packet_world.h"
#include "wq/status.h"

enum {
    FEW = 64, // pairs: tables and the heap's own pages are there then
    MANY = 256,
    MOST_LEN = 20 << 10, // octets of one, with queues of WORLD_QUEUE_LEN entries
    MESSAGE_LEN = 64,
};

static struct rnic_qp *pairs[MANY][2];

static long resident_len(void)
{
    long all, resident;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &all, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

// Each end has sent a message, and waits for nothing.
static void make_idle(unsigned i)
{
    world_make_pair(RNIC_QP_RC);
    for (unsigned from = 0; from < 2; from++) {
        pairs[i][from] = w.qps[from];
        world_post_recv(1 - from, 0, MESSAGE_LEN);
        world_post(from, WQE_SEND, MESSAGE_LEN, MESSAGE_LEN, 0);
        assert_int_equal(world_completion(from).status, WC_SUCCESS);
        assert_int_equal(world_completion(1 - from).status, WC_SUCCESS);
    }
}

static void an_idle_queue_pair_costs_few_pages(void **state)
{
    world_open(&(struct datagram_net_config){0});
    for (unsigned i = 0; i < FEW; i++) {
        make_idle(i);
    }
    const long before_len = resident_len();
    for (unsigned i = FEW; i < MANY; i++) {
        make_idle(i);
    }
    const long each_len = (resident_len() - before_len) / (2 * (MANY - FEW));
    print_message("%ld octets of %d\n", each_len, MOST_LEN);
    assert_in_range(each_len, 1024, MOST_LEN);
    for (unsigned i = 0; i + 1 < MANY; i++) { // the last is the world's
        rnic_qp_destroy(pairs[i][0]);
        rnic_qp_destroy(pairs[i][1]);
    }
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_queue_pair_costs_few_pages),
    };
    mallopt(M_PERTURB, 0); // which writes into what nobody uses
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
