// Octets of Read Responses leave from where they lie, if no CRC holds anybody to them; what the
// peer does not take at once is kept, for the program may take the memory back.

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/iwarp/craft.h"
#include "tests/rnic/device.h"
#include "tests/rnic/raw.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

enum {
    SOURCE_LEN = 16 << 20, // more than the kernel holds for who does not read
    SOURCE_OCTET = 0x11,
    LOOK_MS = 20,
};

static struct device device;
static struct end listener, victim;
static struct sockaddr_in addr;
static uint8_t *source;
static uint32_t source_stag;
static int fd;

static int setup(void **state)
{
    struct rnic_config config = device_config();
    config.crc = false;
    config.peer_to_peer = false; // raw peers do not say it
    device_open(&device, &config, 0);
    source = mmap(NULL, SOURCE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(source, MAP_FAILED);
    memset(source, SOURCE_OCTET, SOURCE_LEN);
    assert_int_equal(rnic_region_register(device.rnic, device.pd, source, SOURCE_LEN,
                                          (uintptr_t)source, MEM_ACCESS_REMOTE_READ, &source_stag),
                     0);
    end_listen(&listener, &device, &addr);
    return 0;
}

static int teardown(void **state)
{
    close(fd);
    end_fini(&victim);
    end_fini(&listener);
    device_close(&device);
    return 0;
}

static void connect_without_crc(void)
{
    uint8_t frame[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REQUEST, frame);
    put_be16(frame + MPA_OFF_FLAGS, get_be16(frame + MPA_OFF_FLAGS) & (uint16_t)~MPA_FLAG_CRC);
    end_init(&victim, &device);
    fd = raw_connect(&addr);
    raw_send(fd, frame, len);
    end_take_request(&victim, &listener);
    end_accept(&victim);
    assert_true(raw_receive_frame(fd));
}

static void ask_for_all(void)
{
    struct craft c = craft_read_request(1, source_stag, (uintptr_t)source, SOURCE_LEN);
    raw_send_fpdu(fd, c.octets, c.len);
    end_take(&victim, RNIC_EP_ESTABLISHED);
}

// Nothing more comes for who does not read.
static void wait_until_it_is_stuck(void)
{
    int there = 0, before = -1;
    while (there == 0 || there != before) {
        before = there;
        pause_ms(LOOK_MS);
        assert_int_equal(ioctl(fd, FIONREAD, &there), 0);
    }
}

// The next FPDU's header; its payload must be what the memory held. False: the stream has ended.
static bool receive_segment(struct ddp_header *ret)
{
    static uint8_t octets[MPA_FPDU_MAX_LEN];
    if (!raw_receive(fd, octets, MPA_LENGTH_LEN)) {
        return false;
    }
    size_t ulpdu_len = get_be16(octets), header_len;
    assert_true(raw_receive(fd, octets, mpa_fpdu_len(ulpdu_len) - MPA_LENGTH_LEN));
    assert_int_equal(ddp_header_parse(span_of(octets, ulpdu_len), ret, &header_len), DDP_PARSE_OK);
    for (size_t i = header_len; ret->tagged && i < ulpdu_len; i++) {
        assert_int_equal(octets[i], SOURCE_OCTET);
    }
    return true;
}

static void memory_may_go_while_its_octets_wait(void **state)
{
    struct ddp_header header = {0};
    connect_without_crc();
    ask_for_all();
    wait_until_it_is_stuck();
    assert_int_equal(rnic_region_deregister(device.rnic, source_stag), 0);
    assert_int_equal(munmap(source, SOURCE_LEN), 0);
    while (receive_segment(&header)) {
    }
    assert_false(header.tagged); // the rest of the memory is refused, in order
    assert_int_equal(rdmap_control_opcode(header.rsvdulp), RDMAP_TERMINATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_may_go_while_its_octets_wait, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
