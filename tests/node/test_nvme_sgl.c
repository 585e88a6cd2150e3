// SGL descriptors: where a command's data are, and which are refused.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "node/nvme/sgl.h"

enum { ALL = NVME_SGL_KIND_IN_CAPSULE | NVME_SGL_KIND_KEYED | NVME_SGL_KIND_TRANSPORT };

// As a Linux host sends it: STag d3a23f01, 4096 octets, to be invalidated.
static const uint8_t linux_keyed[NVME_SGL_LEN] = {0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70,
                                                  0x00, 0x10, 0x00, 0x01, 0x3f, 0xa2, 0xd3, 0x4f};

static void a_keyed_descriptor_has_three_octets_of_length(void **state)
{
    struct nvme_sgl sgl = nvme_sgl_parse(linux_keyed);
    uint8_t again[NVME_SGL_LEN];
    assert_int_equal(sgl.id, NVME_SGL_KEYED_INVALIDATE);
    assert_true(sgl.address == UINT64_C(0x7060504030201000));
    assert_int_equal(sgl.len, 4096);
    assert_int_equal(sgl.key, 0xd3a23f01);
    nvme_sgl_emit(again, &sgl);
    assert_memory_equal(again, linux_keyed, sizeof again);
}

static void each_kind_is_for_its_transport(void **state)
{
    static const struct {
        uint8_t id;
        unsigned kinds;
        enum nvme_status status;
    } cases[] = {
        {NVME_SGL_KEYED, NVME_SGL_KIND_KEYED, NVME_OK},
        {NVME_SGL_KEYED_INVALIDATE, NVME_SGL_KIND_KEYED, NVME_OK},
        {NVME_SGL_KEYED, ALL & ~NVME_SGL_KIND_KEYED, NVME_INVALID_SGL_TYPE},
        {NVME_SGL_TRANSPORT, NVME_SGL_KIND_TRANSPORT, NVME_OK},
        {NVME_SGL_TRANSPORT, ALL & ~NVME_SGL_KIND_TRANSPORT, NVME_INVALID_SGL_TYPE},
        {0x00, ALL, NVME_INVALID_SGL_TYPE}, // an address of the host's own memory
        {0x30, ALL, NVME_INVALID_SGL_TYPE}, // last segment
        {0xff, ALL, NVME_INVALID_SGL_TYPE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct nvme_sgl sgl = {.id = cases[i].id, .len = 512};
        assert_int_equal(nvme_sgl_check(&sgl, cases[i].kinds, 0, 512), cases[i].status);
        assert_int_equal(nvme_sgl_check(&sgl, cases[i].kinds, 0, 0), NVME_OK);
    }
}

static void in_capsule_data_lie_within_the_capsule(void **state)
{
    static const struct {
        uint64_t offset;
        uint32_t len;
        enum nvme_status status;
    } cases[] = {
        {0, 4096, NVME_OK},
        {3584, 512, NVME_OK},
        {3585, 512, NVME_INVALID_SGL_OFFSET},
        {4097, 512, NVME_INVALID_SGL_OFFSET},
        {UINT64_MAX - 100, 512, NVME_INVALID_SGL_OFFSET},
        {512, UINT32_MAX, NVME_INVALID_SGL_OFFSET},
        {0, 511, NVME_INVALID_SGL_LENGTH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct nvme_sgl sgl = {
            .id = NVME_SGL_IN_CAPSULE, .address = cases[i].offset, .len = cases[i].len};
        assert_int_equal(nvme_sgl_check(&sgl, ALL, 4096, 512), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_keyed_descriptor_has_three_octets_of_length),
        cmocka_unit_test(each_kind_is_for_its_transport),
        cmocka_unit_test(in_capsule_data_lie_within_the_capsule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
