// The configuration file: each key where it belongs, each mistake with its line; and whether the
// process may have as many descriptors as the volumes of it need.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/host/agent.h"
#include "node/host/config.h"

enum { FILE_MAX = 8192 };

static char path[] = "/tmp/weft-config.XXXXXX";

static int make_file(void **state)
{
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    return unlink(path);
}

static int read_text(const char *text, struct host_config *config, struct why *why)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    return config_read(path, config, why);
}

static void append_text(char text[FILE_MAX], const char *more)
{
    size_t at = strlen(text);
    snprintf(text + at, FILE_MAX - at, "%s", more);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static void each_key_of_the_node_sets_its_own(void **state)
{
    struct host_config config = {.nbd_listen = {1, {"as before"}}, .patience_ns = 7};
    struct why why = {""};
    assert_int_equal(
        read_text("[node]\nnvme-rdma = 192.0.2.1\nnvme-tcp = 192.0.2.2:1\n"
                  "iscsi = 192.0.2.4\niscsi-rdma = 192.0.2.5\nmetrics = 192.0.2.3:2\npool = 33M\n"
                  "rta = one\nallow-add = yes\n",
                  &config, &why),
        0);
    assert_string_equal(config.nbd_listen.of[0], "as before"); // what the file does not say stays
    assert_int_equal(config.patience_ns, 7);
    assert_string_equal(config.nvme_rdma_listen.of[0], "192.0.2.1");
    assert_string_equal(config.nvme_tcp_listen.of[0], "192.0.2.2:1");
    assert_string_equal(config.metrics_listen, "192.0.2.3:2");
    assert_string_equal(config.iscsi_listen.of[0], "192.0.2.4");
    assert_string_equal(config.iscsi_rdma_listen.of[0], "192.0.2.5");
    assert_int_equal(config.pool_len, 64 << 20);
    assert_int_equal(config.rta, HOST_RTA_ONE);
    assert_true(config.takes_volumes);
    assert_int_equal(read_text("[node]\nnbd = unix:/run/a\npatience = 2s\nrta = host\nallow-add = "
                               "off\n",
                               &config, &why),
                     0);
    assert_string_equal(config.nbd_listen.of[1], "unix:/run/a");
    assert_string_equal(config.metrics_listen, "192.0.2.3:2");
    assert_int_equal(config.patience_ns, 2 * NS_PER_S);
    assert_int_equal(config.rta, HOST_RTA_HOST);
    assert_false(config.takes_volumes);
    assert_int_equal(config.volume_count, 0);
}

static void an_address_for_clients_may_be_one_of_several(void **state)
{
    struct host_config config = {0};
    struct why why = {""};
    assert_int_equal(
        read_text("[node]\nnvme-tcp = 192.0.2.1:1\nnvme-tcp = 192.0.2.2:1\nnbd =\n", &config, &why),
        0);
    assert_int_equal(config.nvme_tcp_listen.count, 2);
    assert_string_equal(config.nvme_tcp_listen.of[1], "192.0.2.2:1");
    assert_int_equal(config.nbd_listen.count, 0);
    assert_int_equal(read_text("[node]\nnvme-tcp = 192.0.2.2:1\n", &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "this address is given twice: 192.0.2.2:1"));
}

static void each_key_of_a_volume_sets_its_own(void **state)
{
    static const uint8_t uuid[] = {0x6f, 0x4d, 0x1c, 0x1e, 0x8e, 0x0f, 0x4c, 0x5b,
                                   0x9d, 0x0a, 0x5a, 0x0b, 0x1f, 0x0d, 0x7f, 0x11};
    static const uint8_t nguid[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                    0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    struct host_config config = {0};
    struct why why = {""};
    assert_int_equal(
        read_text("[volume a]\nuri = ram:1M?allow=x\nallow = y\nread-only = true\nrta = both\n"
                  "uuid = 6f4d1c1e-8e0f-4c5b-9d0a-5a0b1f0d7f11\n"
                  "[node]\nnbd = 127.0.0.1:1\n"
                  "[volume b]\nuri = /srv/b\nread-only = no\n"
                  "nguid = 00112233445566778899aabbccddeeff\n",
                  &config, &why),
        0);
    assert_int_equal(config.volume_count, 2);
    const struct volume_wish *a = &config.volumes[0], *b = &config.volumes[1];
    assert_string_equal(a->name, "a");
    assert_string_equal(a->uri, "ram:1M");
    assert_string_equal(a->unit, "both");
    assert_true(a->read_only && a->has_uuid && !a->has_alias);
    assert_memory_equal(a->identity.uuid, uuid, sizeof uuid);
    assert_int_equal(a->allow_count, 2);
    assert_string_equal(a->allow[0], "x");
    assert_string_equal(a->allow[1], "y");
    assert_string_equal(b->name, "b");
    assert_string_equal(b->uri, "file:/srv/b");
    assert_string_equal(b->unit, "");
    assert_true(!b->read_only && !b->has_uuid && b->has_alias);
    assert_memory_equal(b->identity.alias, nguid, sizeof nguid);
    assert_string_equal(config.nbd_listen.of[0], "127.0.0.1:1");
    config_free(&config);
    assert_null(config.volumes);
    assert_int_equal(config.volume_count, 0);
}

static void rates_and_places_are_the_volumes(void **state)
{
    struct host_config config = {0};
    struct why why = {""};
    assert_int_equal(read_text("[volume a]\nuri = ram:1M\niops = 5\nbps = 2M\nstandby = yes\n"
                               "nqn = nqn.2026-11.test:a\nnsid = 7\n"
                               "target = iqn.2026-11.test:b\nlun = 9\n",
                               &config, &why),
                     0);
    const struct volume_wish *a = &config.volumes[0];
    assert_int_equal(a->rate.iops, 5);
    assert_int_equal(a->rate.bps, 2 << 20);
    assert_true(a->may_stand_by);
    assert_string_equal(a->places[VOLUME_IN_SUBSYSTEM].group, "nqn.2026-11.test:a");
    assert_int_equal(a->places[VOLUME_IN_SUBSYSTEM].member, 7);
    assert_string_equal(a->places[VOLUME_IN_TARGET].group, "iqn.2026-11.test:b");
    assert_int_equal(a->places[VOLUME_IN_TARGET].member, 9 + 1); // LUNs are from 0
    config_free(&config);
}

static void a_switch_has_six_words(void **state)
{
    static const struct {
        const char *word;
        bool is_on;
    } table[] = {{"yes", true}, {"on", true},   {"true", true},
                 {"no", false}, {"off", false}, {"false", false}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct host_config config = {.takes_volumes = !table[i].is_on};
        struct why why = {""};
        char text[64];
        snprintf(text, sizeof text, "[node]\nallow-add = %s\n", table[i].word);
        assert_int_equal(read_text(text, &config, &why), 0);
        assert_int_equal(config.takes_volumes, table[i].is_on);
    }
}

/* ---- what it may not say --------------------------------------------------------------------- */

static void a_mistake_has_its_line_and_its_reason(void **state)
{
    static const struct {
        const char *text, *said;
    } table[] = {
        {"[node]\npool = 64M\npool = 0\n", ":3: it must be 1 to 1T octets: pool"},
        {"[node]\npatience = 0s\n", ":2: it must be more than nothing: patience"},
        {"[node]\nrta = both\n", ":2: not each, one or host: both"},
        {"[node]\nallow-add = maybe\n", ":2: neither yes nor no: maybe"},
        {"[node]\nuri = ram:1M\n", ":2: there is no key: uri"},
        {"[volume a]\nuri = ram:1M\nnbd = 127.0.0.1:1\n", ":3: there is no key: nbd"},
        {"[volume a]\nuri = floppy:\n", ":2: there is no driver floppy: floppy:"},
        {"[volume a]\nuri = ram:1M\n[volume b]\nuri = ram:1M\n[volume a]\nread-only = yes\n",
         ":6: the volume is there already: a"},
        {"[volume]\nuri = ram:1M\n", ":2: not [node] or [volume NAME]: volume"},
        {"[volume a/b]\nuri = ram:1M\n", ":2: not [node] or [volume NAME]: volume a/b"},
        {"[volumes a]\nuri = ram:1M\n", ":2: not [node] or [volume NAME]: volumes a"},
        {"[volume a]\nuuid = 6f4d\n", ":2: not a UUID: 6f4d"},
        {"[volume a]\nnguid = 0011\n", ":2: not 32 hexadecimal digits: 0011"},
        {"[volume a]\nuri = ram:1M\nnqn = a b\n", ":3: nqn=a b: it must be 1 to 223"},
        {"[volume a]\nuri = /srv/\nnsid = 2\n", "several volumes cannot have one identity"},
        {"[volume a]\nlun = 256\n", ":2: lun=256: it must be 0 to 255"},
        {"[volume a]\ntarget = a\n", ":2: target=a: it must be iqn., eui. or naa."},
        {"[volume a]\nnsid = 257\n", ":2: nsid=257: it must be 1 to 256"},
        {"[volume a]\nread-only = yes\n", "volume a: it has no uri"},
        {"[volume b]\nuri = ram:1M\n[volume a]\nrta = x\n", "volume a: it has no uri"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct host_config config = {0};
        struct why why = {""};
        assert_int_equal(read_text(table[i].text, &config, &why), -EINVAL);
        if (strncmp(why.text, path, strlen(path)) != 0 || strstr(why.text, table[i].said) == NULL) {
            fail_msg("'%s' is not in '%s'", table[i].said, why.text);
        }
        config_free(&config);
    }
}

static void a_file_that_is_not_there_is_no_mistake_in_it(void **state)
{
    struct host_config config = {0};
    struct why why = {""};
    assert_int_equal(config_read("/nonexistent/weft.ini", &config, &why), -ENOENT);
    assert_string_equal(why.text, "/nonexistent/weft.ini: No such file or directory");
}

// Of one character more than there is room for nothing is taken.
static void texts_are_as_long_as_their_places(void **state)
{
    static const struct {
        const char *before;
        size_t room;
    } table[] = {{"[node]\nnbd = ", HOST_LISTEN_MAX},
                 {"[node]\nmetrics = ", HOST_LISTEN_MAX},
                 {"[volume a]\nuri = ram:1M\nrta = ", VOLUME_NAME_MAX}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct host_config config = {0};
        struct why why = {""};
        char text[FILE_MAX];
        size_t len = (size_t)snprintf(text, sizeof text, "%s", table[i].before);
        memset(text + len, 'x', table[i].room);
        text[len + table[i].room - 1] = '\0';
        assert_int_equal(read_text(text, &config, &why), 0);
        config_free(&config);
        text[len + table[i].room - 1] = 'x';
        text[len + table[i].room] = '\0';
        assert_int_equal(read_text(text, &config, &why), -EINVAL);
        assert_non_null(strstr(why.text, "too long: xxx"));
        config_free(&config);
    }
}

static void a_volume_has_so_many_clients(void **state)
{
    struct host_config config = {0};
    struct why why = {""};
    char text[FILE_MAX] = "[volume a]\nuri = ram:1M\n";
    for (unsigned i = 0; i < UMA_ALLOW_COUNT_MAX; i++) {
        append_text(text, "allow = x\n");
    }
    assert_int_equal(read_text(text, &config, &why), 0);
    assert_int_equal(config.volumes[0].allow_count, UMA_ALLOW_COUNT_MAX);
    config_free(&config);
    append_text(text, "allow = last\n");
    assert_int_equal(read_text(text, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "too many clients allowed: last"));
    config_free(&config);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

// What the volumes need lies within the limit, or one descriptor beyond it.
static void expect_needs(const struct host_config *config, rlim_t needed)
{
    struct rlimit limit;
    struct why why = {""};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = needed;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(host_descriptors_check(config, &why), 0);
    limit.rlim_cur = needed - 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(host_descriptors_check(config, &why), -EMFILE);
    char said[WHY_MAX];
    snprintf(said, sizeof said, "%zu volumes need about %llu open files, and the limit is %llu",
             config->volume_count, (unsigned long long)needed, (unsigned long long)needed - 1);
    assert_string_equal(why.text, said);
}

// 64 for the node; 7 for each process; for a volume 2, and 4 more where no process has its device.
static void volumes_need_descriptors_by_where_they_are_served(void **state)
{
    static struct volume_wish alone[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    static struct volume_wish shared[] = {
        {.unit = "x"}, {.unit = "y"}, {.unit = "x"}, {.unit = ""}};
    struct host_config config = {.volumes = alone, .volume_count = 3};
    expect_needs(&config, 64 + 3 * 2 + 3 * 7);
    config.rta = HOST_RTA_ONE;
    expect_needs(&config, 64 + 3 * 2 + 7);
    config.rta = HOST_RTA_HOST;
    expect_needs(&config, 64 + 3 * 6 + 7);
    config = (struct host_config){.volumes = shared, .volume_count = 4};
    expect_needs(&config, 64 + 4 * 2 + 3 * 7);
}

static void a_node_takes_all_descriptors_that_it_may_have(void **state)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max > 100 ? 100 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    host_descriptors_raise();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_of_the_node_sets_its_own),
        cmocka_unit_test(an_address_for_clients_may_be_one_of_several),
        cmocka_unit_test(each_key_of_a_volume_sets_its_own),
        cmocka_unit_test(a_switch_has_six_words),
        cmocka_unit_test(a_mistake_has_its_line_and_its_reason),
        cmocka_unit_test(a_file_that_is_not_there_is_no_mistake_in_it),
        cmocka_unit_test(texts_are_as_long_as_their_places),
        cmocka_unit_test(a_volume_has_so_many_clients),
        cmocka_unit_test(volumes_need_descriptors_by_where_they_are_served),
        cmocka_unit_test(a_node_takes_all_descriptors_that_it_may_have),
        cmocka_unit_test(rates_and_places_are_the_volumes),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
