// Names of counters: one word each, none twice, and the value belongs to the name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "iwarp/counters.h"

enum { NAME_MAX_COUNT = 256 };

struct names {
    char name[NAME_MAX_COUNT][96];
    uint64_t value[NAME_MAX_COUNT];
    unsigned count;
};

static void take(void *ctx, const char *name, uint64_t value)
{
    struct names *n = ctx;
    assert_true(n->count < NAME_MAX_COUNT && strlen(name) < 96);
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_."), strlen(name));
    for (unsigned i = 0; i < n->count; i++) {
        assert_string_not_equal(n->name[i], name);
    }
    memcpy(n->name[n->count], name, strlen(name) + 1);
    n->value[n->count++] = value;
}

static uint64_t value_of(const struct names *n, const char *name)
{
    for (unsigned i = 0; i < n->count; i++) {
        if (strcmp(n->name[i], name) == 0) {
            return n->value[i];
        }
    }
    fail_msg("no counter is named %s", name);
    return 0;
}

static void every_counter_has_a_name_of_its_own(void **state)
{
    static struct names names;
    struct qp_counters counters = {.rnr_stalls = 5};
    counters.in[RDMAP_READ_REQUEST].messages = 6;
    counters.out[RDMAP_SEND_SE_INV].octets = 7;
    counters.refusals[RDMAP_REFUSED_DDP_BOUNDS] = 8;
    counters.terminates_out[TERM_MPA_CRC] = 9;
    qp_counters_each(&counters, take, &names);
    assert_int_equal(value_of(&names, "rnr_stalls"), 5);
    assert_int_equal(value_of(&names, "in.rdma_read_request.messages"), 6);
    assert_int_equal(value_of(&names, "out.send_with_se_and_invalidate.octets"), 7);
    assert_int_equal(value_of(&names, "refused.ddp_bounds"), 8);
    assert_int_equal(value_of(&names, "terminate_out.mpa_crc"), 9);
}

// All that crosses the wire is counted by what it is, in both directions.
static void every_operation_is_counted_both_ways(void **state)
{
    static const char *const directions[] = {"in", "out"};
    static struct names names;
    struct qp_counters counters = {.rnr_stalls = 0};
    for (uint8_t i = 0; i < RDMAP_OPCODE_COUNT; i++) {
        counters.in[i] = (struct qp_message_counter){.messages = 1 + i, .octets = 101 + i};
        counters.out[i] = (struct qp_message_counter){.messages = 201 + i, .octets = 301 + i};
    }
    names.count = 0;
    qp_counters_each(&counters, take, &names);
    unsigned known = 0;
    for (uint8_t i = 0; i < RDMAP_OPCODE_COUNT; i++) {
        for (unsigned k = 0; k < 2 && rdmap_opcode_facts(i)->is_known; k++) {
            unsigned found = 0;
            for (unsigned n = 0; n < names.count; n++) {
                bool is_of_it = strncmp(names.name[n], directions[k], strlen(directions[k])) == 0;
                found += is_of_it && (names.value[n] == 200U * k + 1 + i ||
                                      names.value[n] == 200U * k + 101 + i);
            }
            assert_int_equal(found, 2);
            known++;
        }
    }
    assert_true(known > 20);
    assert_int_equal(value_of(&names, "in.rdma_write.messages"), 1 + RDMAP_WRITE);
}

// What a queue pair that goes has counted, each of it, is kept in the sum.
static void what_several_counted_is_added(void **state)
{
    enum { COUNT = sizeof(struct qp_counters) / sizeof(uint64_t) };
    union {
        struct qp_counters counters;
        uint64_t value[COUNT];
    } one, total = {.value = {0}};
    for (unsigned i = 0; i < COUNT; i++) {
        one.value[i] = i + 1;
    }
    for (unsigned i = 0; i < 3; i++) {
        qp_counters_add(&total.counters, &one.counters);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(total.value[i], 3 * (i + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_counter_has_a_name_of_its_own),
        cmocka_unit_test(every_operation_is_counted_both_ways),
        cmocka_unit_test(what_several_counted_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
