// A script of what may happen to a connection: octets of a peer, calls of the application, TCP's
// news, time. The first octet draws the configuration, each further one a step with what follows.
// The state machine must hold its invariants, and tell the application a story that makes sense.
#include "conn/conn.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum step {
    STEP_INPUT, // + a length, + octets
    STEP_WRITE, // + a length
    STEP_TIME,  // + a count of milliseconds, squared
    STEP_CONNECT,
    STEP_ACCEPT,
    STEP_REJECT,
    STEP_ESTABLISH,
    STEP_LLP_CONNECTED,
    STEP_LLP_FAILED,
    STEP_FIRST_FPDU,
    STEP_COUNT,
};

struct run {
    struct conn conn;
    struct conn_frames frames;
    struct conn_counters counters;
    instant_ns now;
    unsigned told[CONN_EVENT_FAILED + 1]; // events by type
};

static uint8_t take(struct span *in)
{
    uint8_t octet = in->len > 0 ? in->ptr[0] : 0;
    *in = span_skip(*in, in->len > 0);
    return octet;
}

static void begin(struct run *r, uint8_t draw)
{
    struct conn_config config = {
        .is_initiator = draw & 1,
        .revision = draw & 2 ? 2 : 1,
        .crc_wanted = draw & 4,
        .markers_wanted = draw & 8,
        .peer_to_peer = draw & 16,
        .extensions = draw & 32,
        .ird_max = 32,
        .encodings = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS,
        .request_timeout_ns = draw & 64 ? 0 : NS_PER_S,
        .reply_timeout_ns = 2 * NS_PER_S,
        .counters = &r->counters,
    };
    memset(r, 0, sizeof *r);
    conn_init(&r->conn, &config, &r->frames, r->now);
}

static void step(struct run *r, struct span *in)
{
    struct conn_params params = {.private_data = span_of("ours", 4), .ird = 16, .ord = 16};
    switch (take(in) % STEP_COUNT) {
    case STEP_INPUT: {
        size_t len = take(in);
        struct span octets = span_first(*in, len < in->len ? len : in->len);
        CHECK(conn_on_input(&r->conn, octets, r->now) <= octets.len);
        *in = span_skip(*in, octets.len);
        break;
    }
    case STEP_WRITE: {
        size_t len = take(in), due = conn_output(&r->conn).len;
        conn_on_output(&r->conn, len < due ? len : due, r->now);
        break;
    }
    case STEP_TIME: {
        uint64_t ms = take(in);
        r->now += ms * ms * NS_PER_MS;
        conn_on_deadline(&r->conn, r->now);
        CHECK(conn_next_deadline(&r->conn) > r->now);
        break;
    }
    case STEP_CONNECT:
        params.wants_reply = take(in) & 1;
        conn_connect(&r->conn, &params);
        break;
    case STEP_ACCEPT:
        conn_accept(&r->conn, &params, r->now);
        break;
    case STEP_REJECT:
        conn_reject(&r->conn, &params, r->now);
        break;
    case STEP_ESTABLISH:
        conn_establish(&r->conn, r->now);
        break;
    case STEP_LLP_CONNECTED:
        conn_on_llp_connected(&r->conn, r->now);
        break;
    case STEP_LLP_FAILED:
        conn_on_llp_failed(&r->conn, -(int)take(in), r->now);
        break;
    case STEP_FIRST_FPDU:
        conn_on_first_fpdu(&r->conn, r->now);
        break;
    }
}

static void check_story(struct run *r)
{
    struct conn_event event;
    char line[300];
    while (conn_next_event(&r->conn, &event)) {
        CHECK(++r->told[event.type] == 1); // nothing is told twice
    }
    CHECK(!r->told[CONN_EVENT_ESTABLISHED] || !r->told[CONN_EVENT_FAILED]);
    CHECK(!r->told[CONN_EVENT_ESTABLISHED] || !r->told[CONN_EVENT_REJECTED]);
    CHECK(conn_is_established(&r->conn) <= (r->told[CONN_EVENT_ESTABLISHED] == 1));
    CHECK(!conn_is_over(&r->conn) || conn_output(&r->conn).len == 0);
    CHECK(conn_format(&r->conn, line, sizeof line) == line);
    struct conn_frames *back = conn_frames_back(&r->conn);
    CHECK(back == NULL || back == &r->frames);
    if (back != NULL) { // nobody reads them any more
        memset(back, 0xa5, sizeof *back);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run r;
    struct span in = span_of(data, size);
    begin(&r, take(&in));
    while (in.len > 0) {
        step(&r, &in);
        conn_check(&r.conn);
        check_story(&r);
    }
    return 0;
}
