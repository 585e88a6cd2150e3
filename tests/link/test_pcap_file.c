// A capture with room for records: what stands in it block by block, when it stands there, and what
// the child of a fork leaves alone.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/pcap/file.h"
#include "wire/journal.h"

enum { BEGIN = 60, BLOCK_PACKET = 6, PACKET_OFF_DATA = 28 };
enum { THREADS = 4, EACH = 500, PACKETS = 20000 };

static struct {
    struct pcap_file file;
    char path[64];
    uint8_t octets[4 << 20]; // of the file
    size_t len, at;
} it;

static int begin(void **state)
{
    snprintf(it.path, sizeof it.path, "/tmp/weft-test-pcap-file-%d.pcapng", (int)getpid());
    return pcap_file_open(&it.file, it.path);
}

static int end(void **state)
{
    pcap_file_close(&it.file);
    return unlink(it.path);
}

static void put_packet(size_t len)
{
    static uint8_t octets[PCAP_SNAP_LEN];
    memset(octets, 0x5a, sizeof octets);
    struct iovec iov[2] = {{octets, len / 2}, {octets, len - len / 2}};
    pcap_file_put(&it.file, iov, 2);
}

static void put_record(uint64_t wr_id)
{
    struct journal *journal = pcap_file_journal(&it.file);
    journal->put(journal, &(struct journal_record){.kind = JOURNAL_SEND_POSTED, .wr_id = wr_id});
}

static void read_back(void)
{
    FILE *in = fopen(it.path, "r");
    assert_non_null(in);
    it.len = fread(it.octets, 1, sizeof it.octets, in);
    fclose(in);
    assert_true(it.len >= BEGIN);
    it.at = BEGIN;
}

static uint32_t number_at(size_t at)
{
    uint32_t number;
    memcpy(&number, it.octets + at, sizeof number);
    return number;
}

// The block that follows, of this type; its length stands at both of its ends. Where its body is.
static size_t next(uint32_t type, size_t body_len)
{
    assert_true(it.len - it.at >= 12);
    uint32_t len = number_at(it.at + 4);
    assert_int_equal(number_at(it.at), type);
    assert_int_equal(len, 12 + body_len);
    assert_true(it.len - it.at >= len);
    assert_int_equal(number_at(it.at + len - 4), len);
    it.at += len;
    return it.at - len + 8;
}

static void expect_packet(size_t len)
{
    size_t body = next(BLOCK_PACKET, PACKET_OFF_DATA - 8 + (len + 3) / 4 * 4);
    assert_int_equal(number_at(body + 12), len);
    assert_int_equal(number_at(body + 16), len);
}

static uint64_t expect_record(void)
{
    struct journal_record r;
    instant_ns at;
    size_t body = next(JOURNAL_BLOCK_TYPE, JOURNAL_LEN);
    struct span octets = span_of(it.octets + body, JOURNAL_LEN);
    assert_int_equal(journal_parse(octets, &r, &at), JOURNAL_PARSE_OK);
    return r.wr_id;
}

/* ---- what stands there ----------------------------------------------------------------------- */

// With what was put before it.
static void a_record_is_in_the_file_when_the_call_returns(void **state)
{
    for (size_t len = 40; len < 44; len++) {
        put_packet(len);
    }
    put_record(7);
    read_back();
    for (size_t len = 40; len < 44; len++) {
        expect_packet(len);
    }
    assert_int_equal(expect_record(), 7);
    assert_int_equal(it.at, it.len);
}

static void packets_that_fill_the_buffer_go_into_the_file(void **state)
{
    for (unsigned i = 0; i < 9; i++) {
        put_packet(PCAP_SNAP_LEN);
    }
    pcap_file_flush(&it.file);
    read_back();
    for (unsigned i = 0; i < 9; i++) {
        expect_packet(PCAP_SNAP_LEN);
    }
    assert_int_equal(it.at, it.len);
}

enum { HEAD = PACKET_OFF_DATA + 4, LARGE = 60000, MOST = 100 };

// Packets that leave so much of the buffer.
static void fill_all_but(unsigned room)
{
    for (unsigned i = 0; i < 4; i++) {
        put_packet(LARGE);
    }
    put_packet(PCAP_BUFFER_LEN - 4 * (HEAD + LARGE) - HEAD - room);
}

static void expect_all_but(unsigned room)
{
    for (unsigned i = 0; i < 4; i++) {
        expect_packet(LARGE);
    }
    expect_packet(PCAP_BUFFER_LEN - 4 * (HEAD + LARGE) - HEAD - room);
}

// However little room those before them leave.
static void records_and_packets_find_room_behind_any_packets(void **state)
{
    for (unsigned room = 0; room < MOST; room += 4) {
        uint64_t wr_id = room;
        fill_all_but(room);
        put_record(wr_id);
        fill_all_but(room);
        put_packet(40);
        pcap_file_flush(&it.file);
        read_back();
        expect_all_but(room);
        assert_int_equal(expect_record(), wr_id);
        expect_all_but(room);
        expect_packet(40);
        assert_int_equal(it.at, it.len);
        pcap_file_close(&it.file);
        assert_int_equal(pcap_file_open(&it.file, it.path), 0);
    }
}

static void *put_records(void *arg)
{
    for (unsigned i = 0; i < EACH; i++) {
        put_record((uintptr_t)arg);
    }
    return NULL;
}

static void records_of_several_threads_stand_one_behind_the_other(void **state)
{
    pthread_t threads[THREADS];
    unsigned counts[THREADS] = {0}, packets = 0;
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_records, (void *)i), 0);
    }
    for (unsigned i = 0; i < PACKETS; i++) {
        put_packet(40);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pcap_file_flush(&it.file);
    read_back();
    while (it.at < it.len) {
        if (number_at(it.at) == BLOCK_PACKET) {
            expect_packet(40);
            packets++;
        } else {
            counts[expect_record() % THREADS]++;
        }
    }
    assert_int_equal(packets, PACKETS);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(counts[i], EACH);
    }
}

static void only_a_name_that_ends_so_has_room_for_records(void **state)
{
    static const char *const names[] = {"/dev/null", "/tmp/weft-test-pcap-file.pcapng.1"};
    for (unsigned i = 0; i < 2; i++) {
        static struct pcap_file other;
        assert_int_equal(pcap_file_open(&other, names[i]), 0);
        assert_null(pcap_file_journal(&other));
        pcap_file_close(&other);
        if (i > 0) {
            unlink(names[i]);
        }
    }
}

// The name that a second writer takes does not end so.
static void a_second_writer_has_room_for_records_too(void **state)
{
    static struct pcap_file other;
    char path[128];
    assert_int_equal(pcap_file_open(&other, it.path), 0);
    assert_non_null(pcap_file_journal(&other));
    pcap_file_close(&other);
    snprintf(path, sizeof path, "%s.%d", it.path, (int)getpid());
    assert_int_equal(unlink(path), 0);
}

/* ---- a fork ---------------------------------------------------------------------------------- */

// Forked while a thread holds the lock, which then is nowhere to give it back; and while packets
// are on their way.
static void the_child_of_a_fork_neither_waits_nor_writes(void **state)
{
    int status = -1;
    put_packet(40);
    pthread_mutex_lock(&it.file.lock);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        pcap_file_abandon(&it.file);
        put_record(1);
        put_packet(44);
        pcap_file_flush(&it.file);
        _exit(it.file.fd == -1 ? 0 : 1);
    }
    pthread_mutex_unlock(&it.file.lock);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    put_record(2);
    read_back();
    expect_packet(40);
    assert_int_equal(expect_record(), 2);
    assert_int_equal(it.at, it.len);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_record_is_in_the_file_when_the_call_returns),
        FILE_TEST(packets_that_fill_the_buffer_go_into_the_file),
        FILE_TEST(records_and_packets_find_room_behind_any_packets),
        FILE_TEST(records_of_several_threads_stand_one_behind_the_other),
        FILE_TEST(only_a_name_that_ends_so_has_room_for_records),
        FILE_TEST(a_second_writer_has_room_for_records_too),
        FILE_TEST(the_child_of_a_fork_neither_waits_nor_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
