// WEFT_*: what each variable may be, where its value goes, what holds without it; and where trace
// lines go.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <weft/settings.h>

#include "host/settings.h"
#include "host/trace.h"
#include "tcp/tcp.h"

static void forget_all(void)
{
    for (size_t i = 0; weft_setting_at(i) != NULL; i++) {
        unsetenv(weft_setting_at(i)->name);
    }
}

static const struct weft_setting *setting_named(const char *name)
{
    for (size_t i = 0; weft_setting_at(i) != NULL; i++) {
        if (strcmp(weft_setting_at(i)->name, name) == 0) {
            return weft_setting_at(i);
        }
    }
    fail_msg("there is no %s", name);
    return NULL;
}

static struct host_settings settings_with(const char *name, const char *value)
{
    struct host_settings settings;
    forget_all();
    setenv(name, value, 1);
    host_settings_read(&settings);
    forget_all();
    return settings;
}

/* ---- numbers, switches and words ------------------------------------------------------------- */

enum width { OCTET, WORD, LONG };

#define FIELD(width, member) width, offsetof(struct host_settings, member)

static const struct {
    const char *name;
    enum width width;
    size_t offset;
    uint64_t initial; // without the variable
    const char *text; // a value
    uint64_t value;   // that it becomes
    const char *wrong;
} rows[] = {
    {"WEFT_ECN", FIELD(WORD, ecn), TCP_ECN_ACCEPT, "off", TCP_ECN_OFF, "on"},
    {"WEFT_ECN", FIELD(WORD, ecn), TCP_ECN_ACCEPT, "request", TCP_ECN_REQUEST, "ask"},
    {"WEFT_CRC", FIELD(OCTET, rnic.crc), 1, "off", 0, "yes"},
    {"WEFT_CRC", FIELD(OCTET, rnic.crc), 1, "0", 0, "2"},
    {"WEFT_MARKERS", FIELD(OCTET, rnic.markers), 0, "on", 1, "ON"},
    {"WEFT_MARKERS", FIELD(OCTET, rnic.markers), 0, "1", 1, "copy"},
    {"WEFT_PLACEMENT", FIELD(WORD, rnic.placement), PLACEMENT_EARLY, "strict", PLACEMENT_STRICT,
     "1"},
    {"WEFT_PLACEMENT", FIELD(WORD, rnic.placement), PLACEMENT_EARLY, "off", PLACEMENT_OFF, "stric"},
    {"WEFT_EXTENSIONS", FIELD(OCTET, rnic.extensions), 1, "off", 0, "none"},
    {"WEFT_ONESHOT", FIELD(WORD, rnic.oneshot), RNIC_ONESHOT_FLAGS, "off", RNIC_ONESHOT_OFF, "on"},
    {"WEFT_ONESHOT", FIELD(WORD, rnic.oneshot), RNIC_ONESHOT_FLAGS, "opcode", RNIC_ONESHOT_OPCODE,
     "flag"},
    {"WEFT_ONESHOT_PARTS", FIELD(WORD, rnic.oneshot_parts), RNIC_ONESHOT_BOTH, "advertise",
     RNIC_ONESHOT_ADVERTISE, "none"},
    {"WEFT_ONESHOT_PARTS", FIELD(WORD, rnic.oneshot_parts), RNIC_ONESHOT_BOTH, "close",
     RNIC_ONESHOT_CLOSE, "open"},
    {"WEFT_PEER_TO_PEER", FIELD(OCTET, rnic.peer_to_peer), 1, "off", 0, "-"},
    {"WEFT_WRITE_FLUSH", FIELD(OCTET, rnic.write_flush), 0, "on", 1, "-"},
    {"WEFT_TX", FIELD(OCTET, rnic.tx_copy), 0, "copy", 1, "on"},
    {"WEFT_MPA_REVISION", FIELD(WORD, rnic.mpa_revision), 2, "1", 1, "0"},
    {"WEFT_MPA_REVISION", FIELD(WORD, rnic.mpa_revision), 2, "2", 2, "3"},
    {"WEFT_PEER_TIMEOUT", FIELD(LONG, peer_timeout_ns), 10 * NS_PER_S, "3", 3 * NS_PER_S, "0"},
    {"WEFT_RNR_TIMEOUT", FIELD(LONG, rnic.rnr_timeout_ns), 8 * NS_PER_S, "4", 4 * NS_PER_S, "x"},
    {"WEFT_MPA_TIMEOUT", FIELD(LONG, rnic.mpa_timeout_ns), 10 * NS_PER_S, "5", 5 * NS_PER_S, "5s"},
    {"WEFT_READ_TIMEOUT", FIELD(LONG, rnic.read_timeout_ns), 30 * NS_PER_S, "6", 6 * NS_PER_S, " "},
    {"WEFT_ROCE_PORT", FIELD(WORD, roce_port), 4791, "1024", 1024, "1023"},
    {"WEFT_ROCE_PORT", FIELD(WORD, roce_port), 4791, "49151", 49151, "49152"},
    {"WEFT_VIEW_FILES", FIELD(OCTET, view_files), 1, "off", 0, "yes"},
    {"WEFT_LOCAL", FIELD(OCTET, local), 1, "off", 0, "yes"},
    {"WEFT_PUSH", FIELD(OCTET, push), 1, "off", 0, "yes"},
    {"WEFT_PULL", FIELD(OCTET, pull), 1, "off", 0, "yes"},
    {"WEFT_RNR_STORE", FIELD(WORD, rnic.rnr_store_len), 262144, "4096", 4096, "4k"},
    {"WEFT_READ_CONTEXTS", FIELD(WORD, rnic.read_contexts), 128, "1", 1, "0"},
    {"WEFT_READ_CONTEXTS", FIELD(WORD, rnic.read_contexts), 128, "65536", 65536, "65537"},
    {"WEFT_READ_ALLOTMENT", FIELD(WORD, rnic.read_allotment_len), 262144, "0", 0, "-1"},
    {"WEFT_READ_DEPTH", FIELD(WORD, rnic.read_depth), 0, "128", 128, "129"},
    {"WEFT_READ_TURN", FIELD(WORD, rnic.read_turn_len), 131072, "0", 0, "many"},
    {"WEFT_READ_PRESSURE", FIELD(OCTET, read_pressure), 1, "off", 0, "-"},
    {"WEFT_SNDBUF", FIELD(WORD, sndbuf_len), 0, "65536", 65536, "-"},
    {"WEFT_RCVBUF", FIELD(WORD, rcvbuf_len), 0, "65537", 65537, "-"},
    {"WEFT_ERRORS", FIELD(OCTET, errors), 1, "off", 0, "-"},
    {"WEFT_TRACE", FIELD(WORD, trace_rooms), 0, "mpa", 1U << TRACE_MPA, "mpa,none"},
    {"WEFT_TRACE", FIELD(WORD, trace_rooms), 0, "tcp,rnic", 1U << TRACE_TCP | 1U << TRACE_RNIC,
     "mp"},
    {"WEFT_TRACE", FIELD(WORD, trace_rooms), 0, "all", (1U << TRACE_ROOM_COUNT) - 1, "alles"},
};

static uint64_t field_of(const struct host_settings *settings, unsigned row)
{
    const uint8_t *at = (const uint8_t *)settings + rows[row].offset;
    uint32_t word;
    uint64_t wide;
    switch (rows[row].width) {
    case OCTET:
        return *at;
    case WORD:
        memcpy(&word, at, sizeof word);
        return word;
    default:
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
}

static void every_variable_sets_its_field(void **state)
{
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_settings settings = settings_with(rows[i].name, "");
        if (field_of(&settings, i) != rows[i].initial) {
            fail_msg("%s is %llu at first", rows[i].name,
                     (unsigned long long)field_of(&settings, i));
        }
        settings = settings_with(rows[i].name, rows[i].text);
        if (field_of(&settings, i) != rows[i].value) {
            fail_msg("%s=%s is %llu", rows[i].name, rows[i].text,
                     (unsigned long long)field_of(&settings, i));
        }
        settings = settings_with(rows[i].name, rows[i].wrong); // said on stderr
        assert_int_equal(field_of(&settings, i), rows[i].initial);
        assert_true(weft_setting_accepts(setting_named(rows[i].name), rows[i].text));
        assert_false(weft_setting_accepts(setting_named(rows[i].name), rows[i].wrong));
    }
}

static void every_room_can_be_traced_by_its_name(void **state)
{
    static const char *const names[TRACE_ROOM_COUNT] = {
        [TRACE_MPA] = "mpa",   [TRACE_DDP] = "ddp",  [TRACE_RDMAP] = "rdmap", [TRACE_QP] = "qp",
        [TRACE_CQ] = "cq",     [TRACE_MEM] = "mem",  [TRACE_CONN] = "conn",   [TRACE_TCP] = "tcp",
        [TRACE_LINK] = "link", [TRACE_RNIC] = "rnic"};
    const struct weft_setting *trace = setting_named("WEFT_TRACE");
    for (unsigned i = 0; i < TRACE_ROOM_COUNT; i++) {
        assert_int_equal(settings_with("WEFT_TRACE", names[i]).trace_rooms, 1U << i);
        assert_non_null(strstr(trace->values, names[i])); // and a wrong one is told of it
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void paths_and_links_are_taken_as_they_are(void **state)
{
    char long_path[300];
    memset(long_path, 'a', sizeof long_path);
    long_path[255] = '\0';
    assert_string_equal(settings_with("WEFT_TRACE_FILE", "/tmp/t").trace_path, "/tmp/t");
    assert_string_equal(settings_with("WEFT_PCAP", "/tmp/p").pcap_path, "/tmp/p");
    assert_string_equal(settings_with("WEFT_STATS_FILE", long_path).stats_path, long_path);
    long_path[255] = 'a';
    long_path[256] = '\0';
    assert_string_equal(settings_with("WEFT_STATS_FILE", long_path).stats_path, "");
    assert_string_equal(settings_with("WEFT_PCAP", "").link, "socket");
    assert_string_equal(settings_with("WEFT_LINK", "udp").link, "udp");
    assert_string_equal(settings_with("WEFT_LINK", "carrier-pigeon").link, "socket");
    assert_string_equal(settings_with("WEFT_FAULT", "loss=1%").fault, "loss=1%");
    assert_string_equal(settings_with("WEFT_FAULT", "loss=often").fault, "");
}

static void table_tells_of_every_variable(void **state)
{
    size_t count = 0;
    for (const struct weft_setting *s; (s = weft_setting_at(count)) != NULL; count++) {
        assert_memory_equal(s->name, "WEFT_", 5);
        assert_true(s->argument[0] != '\0' && s->values[0] != '\0' && s->summary[0] != '\0');
        assert_int_not_equal(s->summary[strlen(s->summary) - 1], '.');
        assert_ptr_equal(setting_named(s->name), s); // each once
        if (s->initial[0] != '\0') {
            assert_true(weft_setting_accepts(s, s->initial));
        }
    }
    assert_null(weft_setting_at(count + 1));
    const struct weft_setting stranger = *weft_setting_at(0);
    assert_false(weft_setting_accepts(&stranger, stranger.initial));
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void trace_lines_go_to_their_file(void **state)
{
    char dir[] = "/tmp/weft-test-XXXXXX", path[64], text[2048];
    struct host_settings settings;
    struct host_trace trace = {0};
    struct stat st;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/trace", dir);
    settings = settings_with("WEFT_TRACE", "all");
    snprintf(settings.trace_path, sizeof settings.trace_path, "%s", path);
    host_trace_init(&trace, &settings);
    assert_int_equal(trace.trace.rooms, ((1U << TRACE_ROOM_COUNT) - 1) | 1U << TRACE_ERROR);
    for (int room = 0; room < TRACE_ROOM_COUNT; room++) {
        trace_line(&trace.trace, (enum trace_room)room, "line %d", room);
    }
    fclose(trace.file);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    static const char *const parts[TRACE_ROOM_COUNT] = {
        " mpa: line 0\n",  " ddp: line 1\n",  " rdmap: line 2\n", " qp: line 3\n",
        " cq: line 4\n",   " mem: line 5\n",  " conn: line 6\n",  " tcp: line 7\n",
        " link: line 8\n", " rnic: line 9\n",
    };
    for (int room = 0; room < TRACE_ROOM_COUNT; room++) {
        assert_non_null(strstr(text, parts[room]));
    }
    unsigned long seconds, microseconds;
    int pid;
    assert_int_equal(sscanf(text, "%lu.%6lu %d mpa: ", &seconds, &microseconds, &pid), 3);
    assert_int_equal(pid, getpid());
    unlink(path);
    rmdir(dir);
    host_trace_init(&trace, &settings); // no such folder: said on stderr, where lines go then
    assert_ptr_equal(trace.file, stderr);
    settings.errors = false;
    settings.trace_rooms = 0;
    settings.trace_path[0] = '\0';
    host_trace_init(&trace, &settings);
    assert_int_equal(trace.trace.rooms, 0);
}

// Lines are added to lines, and to nobody's letter.
static void trace_goes_behind_nothing_but_traces(void **state)
{
    char path[] = "/tmp/weft-test-trace-XXXXXX", text[8] = "";
    struct host_trace trace = {0};
    struct stat st;
    off_t len_before = 0;
    int fd = mkstemp(path);
    struct host_settings settings = settings_with("WEFT_TRACE", "all");
    snprintf(settings.trace_path, sizeof settings.trace_path, "%s", path);
    for (unsigned i = 0; i < 2; i++) {
        host_trace_init(&trace, &settings);
        assert_ptr_not_equal(trace.file, stderr);
        trace_line(&trace.trace, TRACE_TCP, "line");
        fclose(trace.file);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_size > len_before);
        len_before = st.st_size;
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "1. Dear", 7, 0), 7);
    host_trace_init(&trace, &settings); // said on stderr, where lines go then
    assert_ptr_equal(trace.file, stderr);
    assert_int_equal(pread(fd, text, sizeof text, 0), 7);
    assert_string_equal(text, "1. Dear");
    close(fd);
    unlink(path);
}

// A daemon that has closed its standard input opens there later what it likes.
static void trace_has_no_standard_descriptor(void **state)
{
    char path[] = "/tmp/weft-test-trace-XXXXXX";
    struct host_trace trace = {0};
    struct stat st;
    close(mkstemp(path));
    struct host_settings settings = settings_with("WEFT_TRACE", "all");
    snprintf(settings.trace_path, sizeof settings.trace_path, "%s", path);
    int input = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    host_trace_init(&trace, &settings);
    bool is_opened = trace.file != stderr && fileno(trace.file) > STDERR_FILENO;
    if (is_opened) {
        trace_line(&trace.trace, TRACE_TCP, "line");
        fclose(trace.file);
    }
    dup2(input, STDIN_FILENO);
    close(input);
    assert_true(is_opened);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variable_sets_its_field),
        cmocka_unit_test(every_room_can_be_traced_by_its_name),
        cmocka_unit_test(paths_and_links_are_taken_as_they_are),
        cmocka_unit_test(table_tells_of_every_variable),
        cmocka_unit_test(trace_lines_go_to_their_file),
        cmocka_unit_test(trace_goes_behind_nothing_but_traces),
        cmocka_unit_test(trace_has_no_standard_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
