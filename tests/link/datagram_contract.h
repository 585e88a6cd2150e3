// What every datagram link does, whatever carries it: tests that the programs of all of them run,
// with `pair` made by a setup function of theirs.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/port_datagram.h"
#include "base/prng.h"

enum { PAIR_HEAD_LEN = 12, PAIR_SOURCE_PORT = 0xc123 };

// Two links, each with an address of each family.
struct datagram_pair {
    struct datagram_link *link[2];
    struct in6_addr ipv4[2], ipv6[2];
};
extern struct datagram_pair pair;

// Of the program: lets time pass, until packets may have come to link[to].
void pair_turn(unsigned to);
// Of the program: datagram_open, while the other link goes on.
int pair_open_at(unsigned i, const struct in6_addr *local);
instant_ns pair_now(void);

// A packet that has arrived, kept.
struct got {
    struct datagram_rx rx;
    uint8_t octets[DATAGRAM_LEN_MAX];
};

static inline struct in6_addr ipv4_mapped(uint32_t addr)
{
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    addr = htonl(addr);
    memcpy(mapped.s6_addr + 12, &addr, sizeof addr);
    return mapped;
}

// From link[0] to link[1].
struct datagram_path pair_path(int family);
void pair_open(void);
// A BTH to a queue pair of link[to], with this packet number.
void pair_head(uint8_t head[PAIR_HEAD_LEN], unsigned to, uint32_t psn);
bool pair_put(const struct datagram_path *path, uint32_t psn, struct span payload);
// Takes up to `max` packets, until none has come to link[to] for a while.
unsigned pair_take(unsigned to, struct got *ret, unsigned max);
uint32_t pair_psn(const struct got *g);
uint64_t datagram_counted(const struct datagram_link *link, const char *name);

#define DATAGRAM_CONTRACT_TESTS(X)                    \
    X(every_operation_of_packets_is_there)            \
    X(packet_crosses_over_ipv4)                       \
    X(packet_crosses_over_ipv6)                       \
    X(head_pieces_and_pad_arrive_in_one)              \
    X(what_was_put_may_change_at_once)                \
    X(packets_of_every_length_cross)                  \
    X(burst_of_equal_packets_keeps_its_order)         \
    X(lengths_may_change_within_a_burst)              \
    X(two_paths_in_turn_keep_their_order)             \
    X(class_and_hops_arrive_as_they_were_sent)        \
    X(class_and_hops_of_many_are_not_those_of_others) \
    X(packets_of_a_path_have_one_source_port)         \
    X(nothing_leaves_before_the_flush)                \
    X(no_more_is_received_than_asked_for)             \
    X(nothing_comes_to_an_address_that_is_closed)     \
    X(address_opened_twice_is_closed_twice)           \
    X(address_of_nobody_cannot_be_opened)             \
    X(route_stays_at_home_for_an_address_of_its_own)  \
    X(longest_packet_is_at_least_a_path_mtu_of_1024)  \
    X(members_of_a_group_get_a_copy)                  \
    X(group_has_hops_of_its_own)                      \
    X(who_left_a_group_gets_nothing)                  \
    X(numbers_of_a_link_are_none_of_managements)      \
    X(packets_and_what_came_of_them_are_counted)

#define X(name) void name(void **state);
DATAGRAM_CONTRACT_TESTS(X)
#undef X
