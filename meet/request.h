// A Request at a point: who asks for whom, and what becomes of it. The right one is accepted. One
// that comes before its queue pair was told of any peer is kept until it is, for a time, so that
// strangers do not fill the backlog for ever: a peer in earnest asks again. All others are refused.
#pragma once

#include "meet/meeting.h"
#include "wire/meeting.h"

// Who asks: what its Request says, and where it comes from.
struct meeting_asker {
    struct in6_addr addr;
    struct meeting_request request;
};

// The queue pair that is asked for.
struct meeting_asked {
    bool is_here;          // there is one of that number, at this point
    bool may_be_told;      // of a peer: it has had none yet
    struct meeting *of_it; // NULL: it was told of none
};

enum meeting_answer {
    MEETING_ACCEPTED, // its meeting has moved on
    MEETING_KEPT,
    MEETING_REFUSED_MALFORMED, // by who could not read it
    MEETING_REFUSED_NO_QUEUE_PAIR,
    MEETING_REFUSED_NOT_EXPECTED,
    MEETING_REFUSED_OTHER_PEER,
    MEETING_REFUSED_ANSWERING,
    MEETING_ANSWER_COUNT,
};

enum meeting_answer meeting_answer_to(const struct meeting_asker *asker,
                                      const struct meeting_asked *asked);
// Those that are accepted are counted when they have met.
void meeting_count_answer(struct meeting_counters *counters, enum meeting_answer answer);
