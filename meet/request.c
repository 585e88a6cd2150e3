#include "meet/request.h"

#include <string.h>

#include "base/check.h"
#include "meet/state.h"

static bool is_expected(const struct meeting *m, const struct meeting_asker *asker)
{
    return m->config.peer_qp_num == asker->request.from_qp_num &&
           memcmp(&m->config.peer_addr, &asker->addr, sizeof asker->addr) == 0;
}

static enum meeting_answer answer_of(struct meeting *m, const struct meeting_asker *asker)
{
    if (!is_expected(m, asker)) {
        return MEETING_REFUSED_OTHER_PEER;
    }
    switch (m->state) {
    case MEETING_LISTENING:
        m->state = meeting_state_next(m->state, MEETING_IN_ACCEPT);
        return MEETING_ACCEPTED;
    case MEETING_ANSWERING:
        return MEETING_REFUSED_ANSWERING;
    default:
        return MEETING_REFUSED_NOT_EXPECTED;
    }
}

enum meeting_answer meeting_answer_to(const struct meeting_asker *asker,
                                      const struct meeting_asked *asked)
{
    if (!asked->is_here) {
        return MEETING_REFUSED_NO_QUEUE_PAIR;
    }
    if (asked->of_it != NULL) {
        return answer_of(asked->of_it, asker);
    }
    return asked->may_be_told ? MEETING_KEPT : MEETING_REFUSED_NOT_EXPECTED;
}

void meeting_count_answer(struct meeting_counters *c, enum meeting_answer answer)
{
    CHECK(answer < MEETING_ANSWER_COUNT);
    c->kept += answer == MEETING_KEPT;
    c->refused_malformed += answer == MEETING_REFUSED_MALFORMED;
    c->refused_no_queue_pair += answer == MEETING_REFUSED_NO_QUEUE_PAIR;
    c->refused_not_expected += answer == MEETING_REFUSED_NOT_EXPECTED;
    c->refused_other_peer += answer == MEETING_REFUSED_OTHER_PEER;
    c->refused_answering += answer == MEETING_REFUSED_ANSWERING;
}
