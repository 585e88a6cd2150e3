// An initiator and a responder joined by a stream that exists only as two calls.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "conn/conn.h"

struct pair {
    struct conn initiator;
    struct conn responder;
    struct conn_frames of_initiator, of_responder;
    struct conn_counters counters; // of both
    instant_ns now;
};

// What a test changes of it stands in the test.
static inline struct conn_config pair_config(struct pair *p, bool is_initiator)
{
    return (struct conn_config){
        .is_initiator = is_initiator,
        .revision = 2,
        .crc_wanted = true,
        .rtr_kinds = is_initiator ? MPA_RTR_WRITE | MPA_RTR_READ : MPA_RTR_ALL,
        .ird_max = 128,
        .request_timeout_ns = 5 * NS_PER_S,
        .reply_timeout_ns = 10 * NS_PER_S,
        .counters = &p->counters,
    };
}

static inline void pair_init(struct pair *p, const struct conn_config *initiator,
                             const struct conn_config *responder)
{
    struct conn_config usual[] = {pair_config(p, true), pair_config(p, false)};
    p->counters = (struct conn_counters){0};
    p->now = 1000;
    conn_init(&p->initiator, initiator != NULL ? initiator : &usual[0], &p->of_initiator, p->now);
    conn_init(&p->responder, responder != NULL ? responder : &usual[1], &p->of_responder, p->now);
}

static inline struct conn_params params_of(const char *private_data, uint16_t ird, uint16_t ord)
{
    return (struct conn_params){
        .private_data = span_of(private_data, strlen(private_data)), .ird = ird, .ord = ord};
}

// Moves at most `max` octets from one to the other; returns how many the other took.
static inline size_t carry(struct conn *from, struct conn *to, size_t max, instant_ns now)
{
    struct span out = conn_output(from);
    uint8_t octets[MPA_STARTUP_MAX_LEN];
    size_t len = out.len < max ? out.len : max;
    if (len == 0) {
        return 0;
    }
    memcpy(octets, out.ptr, len);
    conn_on_output(from, len, now);
    size_t taken = conn_on_input(to, span_of(octets, len), now);
    conn_check(from);
    conn_check(to);
    return taken;
}

// The one event that is due.
static inline struct conn_event event_of(struct conn *conn)
{
    struct conn_event event, none;
    assert_true(conn_next_event(conn, &event));
    assert_false(conn_next_event(conn, &none));
    return event;
}

static inline void assert_no_event(struct conn *conn)
{
    struct conn_event none;
    assert_false(conn_next_event(conn, &none));
}

// Up to the Request before the responder's application.
static inline void pair_request(struct pair *p, const struct conn_params *params)
{
    assert_int_equal(conn_connect(&p->initiator, params), 0);
    conn_on_llp_connected(&p->initiator, p->now);
    carry(&p->initiator, &p->responder, MPA_STARTUP_MAX_LEN, p->now);
}

// A frame put together by the test, as a peer of another kind would send it.
static inline size_t give_frame(struct conn *to, const struct mpa_startup_frame *frame,
                                instant_ns now)
{
    uint8_t octets[MPA_STARTUP_MAX_LEN];
    size_t len = mpa_startup_frame_emit(frame, octets);
    size_t taken = conn_on_input(to, span_of(octets, len), now);
    conn_check(to);
    return taken;
}
