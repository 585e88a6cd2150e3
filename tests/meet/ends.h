// Two queue pairs that are told of each other, on virtual time.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "meet/request.h"

#define ENDS_PATIENCE_NS (20 * NS_PER_S)

static const struct in6_addr ends_low = {
    .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
static const struct in6_addr ends_high = {
    .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}};

struct ends {
    struct meeting first, second;
    struct meeting_counters counters;
    instant_ns now;
};

static inline struct meeting_config ends_config(struct ends *e, struct in6_addr own,
                                                uint32_t own_qp_num, struct in6_addr peer,
                                                uint32_t peer_qp_num)
{
    return (struct meeting_config){.own_addr = own,
                                   .peer_addr = peer,
                                   .own_qp_num = own_qp_num,
                                   .peer_qp_num = peer_qp_num,
                                   .patience_ns = ENDS_PATIENCE_NS,
                                   .counters = &e->counters};
}

static inline void ends_init(struct ends *e)
{
    memset(e, 0, sizeof *e);
    e->now = 5 * NS_PER_S;
    const struct meeting_config first = ends_config(e, ends_low, 100, ends_high, 7);
    const struct meeting_config second = ends_config(e, ends_high, 7, ends_low, 100);
    meeting_init(&e->first, &first, e->now);
    meeting_init(&e->second, &second, e->now);
}

// What the second queue pair hears from the first.
static inline struct meeting_asker ends_asker(const struct ends *e)
{
    return (struct meeting_asker){
        .addr = e->first.config.own_addr,
        .request = {.to_qp_num = e->first.config.peer_qp_num,
                    .from_qp_num = e->first.config.own_qp_num},
    };
}

static inline void ends_check(const struct ends *e)
{
    meeting_check(&e->first);
    meeting_check(&e->second);
}
