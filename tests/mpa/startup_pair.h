// Both ends of a start-up, in the same process.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "mpa/startup.h"

// Both ends of one start-up, joined by byte buffers.
struct pair {
    struct mpa_startup_config initiator, responder;
    struct mpa_startup left, right;
    uint8_t request[MPA_STARTUP_MAX_LEN], reply[MPA_STARTUP_MAX_LEN];
    size_t request_len, reply_len;
    struct mpa_peer_facts request_facts, reply_facts;
    struct mpa_agreement left_agreed, right_agreed;
};

static const struct mpa_startup_config plain = {
    .revision = 2, .crc_wanted = true, .ird = 4, .ord = 4};

static inline struct pair pair_of(struct mpa_startup_config initiator,
                                  struct mpa_startup_config responder)
{
    return (struct pair){.initiator = initiator, .responder = responder};
}

static inline enum mpa_startup_verdict run_request(struct pair *p)
{
    size_t consumed;
    mpa_startup_init(&p->left, &p->initiator);
    mpa_startup_init(&p->right, &p->responder);
    p->request_len = mpa_startup_emit_request(&p->left, p->request);
    assert_true(p->request_len > 0);
    return mpa_startup_on_request(&p->right, span_of(p->request, p->request_len), &consumed,
                                  &p->request_facts);
}

static inline enum mpa_startup_verdict run_reply(struct pair *p)
{
    size_t consumed;
    return mpa_startup_on_reply(&p->left, span_of(p->reply, p->reply_len), &consumed,
                                &p->reply_facts, &p->left_agreed);
}

static inline enum mpa_startup_verdict run(struct pair *p)
{
    assert_int_equal(run_request(p), MPA_STARTUP_OK);
    p->reply_len = mpa_startup_emit_accept(&p->right, &p->responder, p->reply, &p->right_agreed);
    assert_true(p->reply_len > 0);
    return run_reply(p);
}

// A Reply by hand: flags and revision, then private data.
static inline enum mpa_startup_verdict reply_by_hand(struct pair *p, uint16_t flags,
                                                     const void *data, size_t len)
{
    assert_int_equal(run_request(p), MPA_STARTUP_OK);
    memcpy(p->reply, "MPA ID Rep Frame", 16);
    put_be16(p->reply + 16, flags);
    put_be16(p->reply + 18, (uint16_t)len);
    memcpy(p->reply + 20, data, len);
    p->reply_len = 20 + len;
    return run_reply(p);
}
