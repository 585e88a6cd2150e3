// The Nth allocation of the initiator fails, for every N: the call says so, leaves nothing behind,
// and the next one works.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <weft/nvme.h>

#include "tests/failing_memory.h"
#include "tests/initiator/target.h"

enum { LEN = 64 << 10, CALLS_MAX = 100 };

static int connect_to(struct target *target, struct weft_nvme **ret)
{
    char why[WEFT_NVME_WHY_MAX];
    struct weft_nvme_address address = {.host = "127.0.0.1", .nqn = TARGET_NQN};
    struct weft_nvme_attr attr = {.address = &address,
                                  .depth = 4,
                                  .queue_count = 2,
                                  .flags = WEFT_NVME_NO_ONESHOT,
                                  .timeout_ms = 20000};
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    return weft_nvme_connect(&attr, ret, why);
}

static void connecting_without_memory_fails_and_keeps_none(void **state)
{
    const struct target_wish wish = {0};
    struct target *target = target_start(&wish);
    struct weft_nvme *nvme = NULL;
    unsigned call = 0;
    while (nvme == NULL && call < CALLS_MAX) {
        int64_t before = memory_blocks;
        memory_fail_at(++call);
        int error = connect_to(target, &nvme);
        memory_fail_at(0);
        assert_int_equal(error, nvme == NULL ? -ENOMEM : 0);
        if (nvme == NULL) {
            assert_int_equal(memory_blocks, before);
        }
    }
    assert_true(call > 8); // the controller, its queues, and three blocks for each
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void on_complete(struct weft_nvme_io *io)
{
    ++*(unsigned *)io->context;
}

// Two pieces, which are copied when they go the usual way.
static int write_pieces(struct weft_nvme *nvme, uint8_t *data)
{
    unsigned done = 0;
    const struct iovec pieces[] = {{data, 1000}, {data + 1000, LEN - 1000}};
    struct weft_nvme_io io = {.operation = WEFT_NVME_WRITE,
                              .nsid = 1,
                              .len = LEN,
                              .memory = pieces,
                              .memory_count = 2,
                              .on_complete = on_complete,
                              .context = &done};
    int error = weft_nvme_submit(nvme, &io);
    while (error == 0 && done == 0) {
        weft_nvme_wait(nvme, 1000);
    }
    return error != 0 ? error : io.error;
}

static void a_copy_that_there_is_no_memory_for_is_refused(void **state)
{
    const struct target_wish wish = {0};
    struct target *target = target_start(&wish);
    char why[WEFT_NVME_WHY_MAX];
    struct weft_nvme_namespace ns;
    struct weft_nvme *nvme;
    uint8_t *data = malloc(LEN);
    assert_int_equal(connect_to(target, &nvme), 0);
    assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
    memset(data, 0x5a, LEN);
    for (unsigned i = 0; i < 20; i++) { // more often than there are slots
        memory_fail_at(1);
        assert_int_equal(write_pieces(nvme, data), -ENOMEM);
        memory_fail_at(0);
    }
    assert_int_equal(write_pieces(nvme, data), 0);
    assert_memory_equal(target_disk(target), data, LEN);
    free(data);
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connecting_without_memory_fails_and_keeps_none),
        cmocka_unit_test(a_copy_that_there_is_no_memory_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
