#include "wq/allotment.h"

#include "base/check.h"

const char *allotment_event_name(enum allotment_event event)
{
    static const char *const names[ALLOTMENT_EVENT_COUNT] = {
#define X(name, key, text) [ALLOTMENT_##name] = key,
        ALLOTMENT_EVENTS(X)
#undef X
    };
    return names[event];
}

void allotment_init(struct allotment *a, uint32_t wish_len, bool may_follow)
{
    *a = (struct allotment){.wish_len = wish_len, .may_follow = may_follow};
}

void allotment_share(struct allotment *a, uint32_t told_len, uint32_t peer_len)
{
    a->is_shared = true;
    a->told_len = a->taken_len = told_len;
    a->peer_len = peer_len;
}

// 0: one of them wants none.
static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t of_other_node(uint32_t len)
{
    return len == 0 || len >= ALLOTMENT_PEER_MIN_LEN ? len : ALLOTMENT_PEER_MIN_LEN;
}

uint32_t allotment_request_len(const struct allotment *a)
{
    if (!a->is_shared) {
        return a->wish_len;
    }
    return a->peer_len == 0 ? a->told_len : smaller(a->told_len, of_other_node(a->peer_len));
}

uint32_t allotment_answer_len(const struct allotment *a)
{
    return a->is_shared ? smaller(of_other_node(a->taken_len), a->peer_len) : 0;
}

bool allotment_may_name_rest(const struct allotment *a)
{
    return a->is_shared && smaller(a->told_len, a->peer_len) > 0;
}

void allotment_wish(struct allotment *a, uint32_t wish_len, bool may_follow)
{
    a->wish_len = wish_len;
    a->may_follow = may_follow;
}

// What the peer is to be told.
static uint32_t effective_len(const struct allotment *a)
{
    uint32_t peer_len = smaller(a->peer_len, ALLOTMENT_PIPE_MAX_LEN);
    bool follows = a->is_pulled && a->may_follow && a->wish_len > 0 && peer_len > a->wish_len;
    return follows ? peer_len : a->wish_len;
}

enum allotment_word allotment_next_word(const struct allotment *a, uint32_t *ret_len)
{
    if (!a->is_shared) {
        return ALLOTMENT_SAY_NOTHING;
    }
    if (a->is_taken_due) {
        *ret_len = a->peer_len;
        return ALLOTMENT_SAY_TAKEN;
    }
    if (effective_len(a) != a->told_len && !a->is_taken_awaited) {
        *ret_len = effective_len(a);
        return ALLOTMENT_SAY_NOTICE;
    }
    return ALLOTMENT_SAY_NOTHING;
}

void allotment_said(struct allotment *a, enum allotment_word word)
{
    CHECK(word != ALLOTMENT_SAY_NOTHING);
    if (word == ALLOTMENT_SAY_TAKEN) {
        a->is_taken_due = false;
    } else {
        a->told_len = effective_len(a);
        a->is_taken_awaited = true;
    }
}

void allotment_on_notice(struct allotment *a, uint32_t len, enum allotment_event event)
{
    a->is_pulled = event == ALLOTMENT_PIPE || event == ALLOTMENT_ALONE;
    a->peer_len = len;
    a->is_taken_due = true;
}

bool allotment_on_taken(struct allotment *a, uint32_t len)
{
    if (!a->is_taken_awaited || len != a->told_len) {
        return false;
    }
    a->is_taken_awaited = false;
    a->taken_len = len;
    return true;
}
