// Each message in each state of each role, as a file: what is answered, which event is told, what
// state follows, and where Linux does otherwise. The peer is a script; what Linux does is read in
// drivers/infiniband/core/cm.c, in the functions named below, and of events in cma.c's
// cma_ib_handler. Why weft differs stands in docs/roce.md.
#include "base/bytes.h"
#include "tests/golden.h"
#include "tests/ibcm/net.h"

enum place {
    NOBODY,
    ASKS_REQ_SENT,
    ASKS_MRA_REQ_RCVD,
    ASKS_UNSERVED,
    ASKS_REP_RCVD,
    ASKS_MRA_REP_SENT,
    ASKS_ESTABLISHED,
    ASKS_DREQ_SENT,
    ASKS_TIMEWAIT,
    ASKS_REFUSED,
    IS_ASKED_REQ_RCVD,
    IS_ASKED_MRA_REQ_SENT,
    IS_ASKED_REP_SENT,
    IS_ASKED_MRA_REP_RCVD,
    IS_ASKED_ESTABLISHED,
    IS_ASKED_DREQ_SENT,
    IS_ASKED_TIMEWAIT,
    IS_ASKED_REFUSED,
    RESOLVES,
    RESOLVED_FOR,
    RESOLVED_AND_ANSWERED,
    PLACE_COUNT,
};

enum letter {
    REQ,          // again, to who has it
    REQ_OTHER_QP, // the same id, of another queue pair
    REQ_STALE,    // another id, of the same queue pair
    REQ_NOBODY,   // for a service that nobody has
    MRA_OF_REQ,
    MRA_OF_REP,
    REP,
    REP_OTHER_QP,
    REP_OTHER_ID, // of the peer's
    REP_NOBODY,   // for another id of ours
    REJ_OF_REQ,
    REJ_OF_REP,
    REJ_OTHER, // of neither
    REJ_GIVES_UP,
    REJ_STALE,
    RTU,
    RTU_OTHER_ID,
    DREQ,
    DREQ_OTHER_QP,
    DREP,
    SIDR_REQ,
    SIDR_REQ_NOBODY,
    SIDR_REP,
    SIDR_REP_OTHER_SERVICE,
    LAP,
    APR,
    UNKNOWN_ATTRIBUTE,
    OTHER_CLASS_VERSION,
    OTHER_METHOD,
    LETTER_COUNT,
};

enum { THEIR_ID = 0x09000001, THEIR_QP = 0x1234, THEIR_GUID = 77, ATTRIBUTE_LAP = 0x19 };

static const char *const letter_names[LETTER_COUNT] = {
    [REQ] = "REQ",
    [REQ_OTHER_QP] = "REQ, other queue pair",
    [REQ_STALE] = "REQ, other id",
    [REQ_NOBODY] = "REQ for no service",
    [MRA_OF_REQ] = "MRA of REQ",
    [MRA_OF_REP] = "MRA of REP",
    [REP] = "REP",
    [REP_OTHER_QP] = "REP, other queue pair",
    [REP_OTHER_ID] = "REP, other id",
    [REP_NOBODY] = "REP for nobody",
    [REJ_OF_REQ] = "REJ of REQ",
    [REJ_OF_REP] = "REJ of REP",
    [REJ_OTHER] = "REJ",
    [REJ_GIVES_UP] = "REJ, time-out",
    [REJ_STALE] = "REJ, stale",
    [RTU] = "RTU",
    [RTU_OTHER_ID] = "RTU, other id",
    [DREQ] = "DREQ",
    [DREQ_OTHER_QP] = "DREQ, other queue pair",
    [DREP] = "DREP",
    [SIDR_REQ] = "SIDR_REQ",
    [SIDR_REQ_NOBODY] = "SIDR_REQ for no service",
    [SIDR_REP] = "SIDR_REP",
    [SIDR_REP_OTHER_SERVICE] = "SIDR_REP, other service",
    [LAP] = "LAP",
    [APR] = "APR",
    [UNKNOWN_ATTRIBUTE] = "unknown attribute",
    [OTHER_CLASS_VERSION] = "class version 1",
    [OTHER_METHOD] = "method Get",
};

/* ---- Linux ----------------------------------------------------------------------------------- */

struct outcome {
    const char *answer, *event, *next;
};

#define SAYS(answer, event, next) \
    {                             \
        answer, event, next       \
    }
#define TOLD(event, next) SAYS("-", event, next)
#define ANSWERS(answer)   SAYS(answer, "-", "-")

// cm_rep_handler, cm_rej_handler; a DREQ and a RTU do not find an id that has heard of nobody
// (cm_acquire_id), so a DREQ is answered by cm_issue_drep.
#define AWAITS_REP                                                     \
    [REP] = TOLD("connect response", "rep-rcvd"),                      \
    [REP_OTHER_QP] = TOLD("connect response", "rep-rcvd"),             \
    [REP_OTHER_ID] = TOLD("connect response", "rep-rcvd"),             \
    [REJ_OF_REQ] = TOLD("rejected", "over"), [DREQ] = ANSWERS("DREP"), \
    [DREQ_OTHER_QP] = ANSWERS("DREP")
// cm_rej_handler, whose id cm_acquire_rejected_id finds by both ids unless it is said of a REQ.
#define ENDS_BY_REJ                                                                          \
    [REJ_OF_REP] = TOLD("rejected", "timewait"), [REJ_OTHER] = TOLD("rejected", "timewait"), \
    [REJ_GIVES_UP] = TOLD("rejected", "timewait"), [REJ_STALE] = TOLD("rejected", "timewait")
// ... cm_reset_to_idle, but of a stale one cm_enter_timewait.
#define IDLE_BY_REJ                                                                  \
    [REJ_OF_REP] = TOLD("rejected", "over"), [REJ_OTHER] = TOLD("rejected", "over"), \
    [REJ_GIVES_UP] = TOLD("rejected", "over"), [REJ_STALE] = TOLD("rejected", "timewait")
// cm_dreq_handler; the DREP is sent by rdma_disconnect, or by who destroys the id (cm_destroy_id).
#define ENDS_BY_DREQ [DREQ] = TOLD("disconnected", "dreq-rcvd")
// An id that is gone, or idle.
#define OVER [DREQ] = ANSWERS("DREP"), [DREQ_OTHER_QP] = ANSWERS("DREP")

// clang-format off
// What is not here is passed over.
static const struct outcome linux_says[PLACE_COUNT][LETTER_COUNT] = {
    [NOBODY] = {OVER, [REQ] = TOLD("connect request", "-"), [REQ_NOBODY] = ANSWERS("REJ"),
                [SIDR_REQ] = TOLD("connect request", "-"),
                [SIDR_REQ_NOBODY] = ANSWERS("SIDR_REP")},
    [ASKS_REQ_SENT] = {AWAITS_REP, [MRA_OF_REQ] = TOLD("-", "mra-req-rcvd")},
    [ASKS_MRA_REQ_RCVD] = {AWAITS_REP},
    [ASKS_UNSERVED] = {OVER}, // the first REJ was the end
    // cma_ib_handler says ib_send_cm_mra with IB_CM_MRA_FLAG_DELAY, so a REP again finds the
    // state behind; cm_dreq_handler passes over a DREQ.
    [ASKS_REP_RCVD] = {ENDS_BY_REJ, [REP] = ANSWERS("MRA"), [REP_OTHER_QP] = ANSWERS("MRA")},
    [ASKS_MRA_REP_SENT] = {ENDS_BY_REJ, [REP] = ANSWERS("MRA"), [REP_OTHER_QP] = ANSWERS("MRA")},
    // cm_dup_rep_handler
    [ASKS_ESTABLISHED] = {ENDS_BY_REJ, ENDS_BY_DREQ, [REP] = ANSWERS("RTU"),
                          [REP_OTHER_QP] = ANSWERS("RTU")},
    // cm_drep_handler
    [ASKS_DREQ_SENT] = {ENDS_BY_REJ, ENDS_BY_DREQ, [DREP] = TOLD("disconnected", "timewait")},
    [ASKS_TIMEWAIT] = {[DREQ] = ANSWERS("DREP")},
    [ASKS_REFUSED] = {OVER},
    // cma_ib_req_handler says ib_send_cm_mra likewise; cm_dup_req_handler. A REQ of the same id and
    // GUID is a copy (cm_insert_remote_id), another one of the queue pair stale (cm_match_req).
    // Who gives up before he has heard our id is found by his GUID (cm_find_remote_id).
    [IS_ASKED_REQ_RCVD] = {OVER, [REQ] = ANSWERS("MRA"), [REQ_OTHER_QP] = ANSWERS("MRA"),
                           [REQ_STALE] = ANSWERS("REJ"), [REJ_GIVES_UP] = TOLD("rejected", "over")},
    [IS_ASKED_MRA_REQ_SENT] = {IDLE_BY_REJ, [REQ] = ANSWERS("MRA"), [REQ_OTHER_QP] = ANSWERS("MRA"),
                               [REQ_STALE] = ANSWERS("REJ")},
    [IS_ASKED_REP_SENT] = {IDLE_BY_REJ, ENDS_BY_DREQ, [REQ_STALE] = ANSWERS("REJ"),
                           [MRA_OF_REP] = TOLD("-", "mra-rep-rcvd"),
                           [RTU] = TOLD("established", "established")},
    [IS_ASKED_MRA_REP_RCVD] = {IDLE_BY_REJ, ENDS_BY_DREQ, [REQ_STALE] = ANSWERS("REJ"),
                               [RTU] = TOLD("established", "established")},
    // cm_dup_rep_handler does not ask who asked.
    [IS_ASKED_ESTABLISHED] = {ENDS_BY_REJ, ENDS_BY_DREQ,
                              [REQ_STALE] = SAYS("REJ DREQ", "-", "dreq-sent"),
                              [REP] = ANSWERS("RTU"), [REP_OTHER_QP] = ANSWERS("RTU")},
    [IS_ASKED_DREQ_SENT] = {ENDS_BY_REJ, ENDS_BY_DREQ, [REQ_STALE] = ANSWERS("REJ"),
                            [DREP] = TOLD("disconnected", "timewait")},
    // cm_enter_timewait forgets whom it was with (cm_cleanup_timewait).
    [IS_ASKED_TIMEWAIT] = {[DREQ] = ANSWERS("DREP"), [REQ] = TOLD("connect request", "-"),
                           [REQ_OTHER_QP] = TOLD("connect request", "-"),
                           [REQ_STALE] = TOLD("connect request", "-")},
    // ... and so does cm_reset_to_idle.
    [IS_ASKED_REFUSED] = {OVER, [REQ] = TOLD("connect request", "-"),
                          [REQ_OTHER_QP] = TOLD("connect request", "-"),
                          [REQ_STALE] = TOLD("connect request", "-")},
    // cm_sidr_rep_handler looks at the state alone.
    [RESOLVES] = {[SIDR_REP] = TOLD("established", "over"),
                  [SIDR_REP_OTHER_SERVICE] = TOLD("established", "over")},
    // The id is gone with its answer (cm_destroy_id): who asks again is asked about again.
    [RESOLVED_AND_ANSWERED] = {[SIDR_REQ] = TOLD("connect request", "-")},
};
// clang-format on

/* ---- the script ------------------------------------------------------------------------------ */

static struct net net;
static struct net_host *const here = &net.hosts[0];
static struct ibcm_conn *conn;
static struct ibcm_message asked; // the REQ of the script, or its SIDR_REQ
static uint32_t our_id, our_qp, their_id, their_qp;
static uint64_t transaction;

static void take_events(void)
{
    struct ibcm_event e;
    while (ibcm_next_event(here->ibcm, &e)) {
        net_on_event(here, &e);
    }
    ibcm_check(here->ibcm);
}

static void say_octets(const uint8_t *mad)
{
    const struct ibcm_ends ends = {.local = net_address(1), .remote = net_address(2)};
    ibcm_on_mad(here->ibcm, &ends, span_of(mad, MAD_LEN), IBCM_SHARING_NONE, net.now);
    take_events();
}

static void say(const struct ibcm_message *m)
{
    uint8_t mad[MAD_LEN];
    ibcm_message_emit(m, mad);
    say_octets(mad);
}

// What another host would ask.
static struct ibcm_message request(enum ibcm_kind kind)
{
    struct ibcm_message m;
    if (kind == IBCM_REQ) {
        net_connect(&net, 1, 0);
    } else {
        net_resolve(&net, 1, 0);
    }
    assert_int_equal(ibcm_message_parse(span_of(net.last[kind].mad, MAD_LEN), &m), IBCM_PARSE_OK);
    net.sent[kind] = 0;
    return m;
}

static struct ibcm_message req_for(enum letter letter)
{
    struct ibcm_message m = asked.kind == IBCM_REQ ? asked : request(IBCM_REQ);
    m.req.qp_num += letter == REQ_OTHER_QP;
    m.req.local_id += letter == REQ_STALE;
    m.req.service_id += letter == REQ_NOBODY;
    return m;
}

static struct ibcm_message rep_for(enum letter letter)
{
    return (struct ibcm_message){
        .kind = IBCM_REP,
        .transaction_id = transaction,
        .rep = {.local_id = their_id + (letter == REP_OTHER_ID),
                .remote_id = our_id ^ (letter == REP_NOBODY),
                .qp_num = their_qp + (letter == REP_OTHER_QP),
                .ca_guid = THEIR_GUID},
    };
}

static struct ibcm_message rej_for(enum letter letter)
{
    static const enum ibcm_subject subjects[LETTER_COUNT] = {
        [REJ_OF_REQ] = IBCM_SUBJECT_REQ,     [REJ_OF_REP] = IBCM_SUBJECT_REP,
        [REJ_OTHER] = IBCM_SUBJECT_OTHER,    [REJ_STALE] = IBCM_SUBJECT_OTHER,
        [REJ_GIVES_UP] = IBCM_SUBJECT_OTHER,
    };
    static uint8_t guid[8];
    put_be64(guid, asked.kind == IBCM_REQ ? asked.req.ca_guid : THEIR_GUID);
    struct ibcm_message m = {
        .kind = IBCM_REJ,
        .transaction_id = transaction,
        .rej = {.local_id = letter == REJ_OF_REQ ? 0 : their_id,
                .remote_id = our_id,
                .subject = subjects[letter],
                .reason = IBCM_REASON_CONSUMER},
    };
    if (letter == REJ_GIVES_UP) {
        m.rej.reason = IBCM_REASON_TIMEOUT;
        m.rej.info = span_of(guid, sizeof guid);
    } else if (letter == REJ_STALE) {
        m.rej.reason = IBCM_REASON_STALE;
    }
    return m;
}

static struct ibcm_message sidr_for(enum letter letter)
{
    if (letter == SIDR_REQ || letter == SIDR_REQ_NOBODY) {
        struct ibcm_message m = asked.kind == IBCM_SIDR_REQ ? asked : request(IBCM_SIDR_REQ);
        m.sidr_req.service_id += letter == SIDR_REQ_NOBODY;
        m.sidr_req.id += letter == SIDR_REQ_NOBODY;
        return m;
    }
    const uint64_t service = ip_cm_service_id(IP_CM_PS_UDP, NET_PORT);
    return (struct ibcm_message){
        .kind = IBCM_SIDR_REP,
        .transaction_id = transaction,
        .sidr_rep = {.id = our_id,
                     .qp_num = THEIR_QP,
                     .service_id = service + (letter == SIDR_REP_OTHER_SERVICE)},
    };
}

static struct ibcm_message message_for(enum letter letter)
{
    const struct ibcm_ids ids = {.local_id = their_id + (letter == RTU_OTHER_ID),
                                 .remote_id = our_id};
    if (letter <= REQ_NOBODY) {
        return req_for(letter);
    }
    if (letter <= MRA_OF_REP) {
        return (struct ibcm_message){
            .kind = IBCM_MRA,
            .transaction_id = transaction,
            .mra = {.local_id = their_id,
                    .remote_id = our_id,
                    .subject = letter == MRA_OF_REQ ? IBCM_SUBJECT_REQ : IBCM_SUBJECT_REP,
                    .service_timeout = 20}};
    }
    if (letter <= REP_NOBODY) {
        return rep_for(letter);
    }
    if (letter <= REJ_STALE) {
        return rej_for(letter);
    }
    if (letter == DREQ || letter == DREQ_OTHER_QP) {
        return (struct ibcm_message){
            .kind = IBCM_DREQ,
            .transaction_id = ~transaction,
            .dreq = {their_id, our_id, our_qp + (letter == DREQ_OTHER_QP), {0}}};
    }
    if (letter >= SIDR_REQ) {
        return sidr_for(letter);
    }
    return (struct ibcm_message){
        .kind = letter == DREP ? IBCM_DREP : IBCM_RTU, .transaction_id = transaction, .ids = ids};
}

static void say_letter(enum letter letter)
{
    if (letter < LAP) {
        const struct ibcm_message m = message_for(letter);
        say(&m);
        return;
    }
    uint8_t mad[MAD_LEN];
    const struct ibcm_message m = message_for(DREQ); // which ends whatever there is, but for ...
    ibcm_message_emit(&m, mad);
    if (letter <= UNKNOWN_ATTRIBUTE) {
        mad[MAD_OFF_ATTRIBUTE + 1] = (uint8_t)(ATTRIBUTE_LAP + letter - LAP);
    } else {
        mad[letter == OTHER_CLASS_VERSION ? MAD_OFF_CLASS_VERSION : MAD_OFF_METHOD] = 1;
    }
    say_octets(mad);
}

/* ---- into each state ------------------------------------------------------------------------- */

static void ask(void)
{
    struct ibcm_message m;
    here->waits_to_establish = true;
    conn = net_connect(&net, 0, 1);
    assert_int_equal(ibcm_message_parse(span_of(net.last[IBCM_REQ].mad, MAD_LEN), &m),
                     IBCM_PARSE_OK);
    our_id = m.req.local_id;
    our_qp = m.req.qp_num;
    transaction = m.transaction_id;
}

static void come_as_who_asks(enum place place)
{
    ask();
    if (place == ASKS_MRA_REQ_RCVD) {
        say_letter(MRA_OF_REQ);
    } else if (place == ASKS_UNSERVED) {
        struct ibcm_message m = rej_for(REJ_OF_REQ);
        m.rej.reason = IBCM_REASON_INVALID_SERVICE_ID;
        say(&m);
    } else if (place >= ASKS_REP_RCVD) {
        say_letter(REP);
    }
    if (place == ASKS_MRA_REP_SENT) {
        assert_int_equal(ibcm_delay(here->ibcm, conn, net.now), 0);
    } else if (place == ASKS_REFUSED) {
        const struct span nothing = {0};
        assert_int_equal(ibcm_reject(here->ibcm, conn, IBCM_REASON_CONSUMER, nothing, net.now), 0);
    } else if (place >= ASKS_ESTABLISHED) {
        assert_int_equal(ibcm_establish(here->ibcm, conn, net.now), 0);
    }
    if (place == ASKS_DREQ_SENT || place == ASKS_TIMEWAIT) {
        ibcm_disconnect(here->ibcm, conn, net.now);
    }
    if (place == ASKS_TIMEWAIT) {
        say_letter(DREP);
    }
}

static void be_asked(enum ibcm_kind kind)
{
    here->answer = NET_WAITS;
    asked = request(kind);
    say(&asked);
    conn = here->conn;
    transaction = asked.transaction_id;
    their_id = kind == IBCM_REQ ? asked.req.local_id : asked.sidr_req.id;
    their_qp = asked.req.qp_num;
    our_qp = here->params.qp_num;
}

// Our id, once a message has told it.
static void learn_our_id(void)
{
    struct ibcm_message m;
    const enum ibcm_kind kind = net.sent[IBCM_REP] > 0 ? IBCM_REP : IBCM_MRA;
    our_id = 0; // so that it is not known
    if (net.sent[kind] > 0) {
        assert_int_equal(ibcm_message_parse(span_of(net.last[kind].mad, MAD_LEN), &m),
                         IBCM_PARSE_OK);
        our_id = kind == IBCM_REP ? m.rep.local_id : m.mra.local_id;
    }
}

static void come_as_who_is_asked(enum place place)
{
    const struct span nothing = {0};
    be_asked(IBCM_REQ);
    if (place == IS_ASKED_MRA_REQ_SENT) {
        assert_int_equal(ibcm_delay(here->ibcm, conn, net.now), 0);
    } else if (place == IS_ASKED_REFUSED) {
        assert_int_equal(ibcm_reject(here->ibcm, conn, IBCM_REASON_CONSUMER, nothing, net.now), 0);
    } else if (place >= IS_ASKED_REP_SENT) {
        assert_int_equal(ibcm_accept(here->ibcm, conn, &here->params, net.now), 0);
    }
    learn_our_id();
    if (place == IS_ASKED_MRA_REP_RCVD) {
        say_letter(MRA_OF_REP);
    } else if (place >= IS_ASKED_ESTABLISHED && place < IS_ASKED_REFUSED) {
        say_letter(RTU);
    }
    if (place == IS_ASKED_DREQ_SENT || place == IS_ASKED_TIMEWAIT) {
        ibcm_disconnect(here->ibcm, conn, net.now);
    }
    if (place == IS_ASKED_TIMEWAIT) {
        say_letter(DREP);
    }
}

static void come_of_datagrams(enum place place)
{
    struct ibcm_message m;
    if (place == RESOLVES) {
        conn = net_resolve(&net, 0, 1);
        assert_int_equal(ibcm_message_parse(span_of(net.last[IBCM_SIDR_REQ].mad, MAD_LEN), &m),
                         IBCM_PARSE_OK);
        our_id = m.sidr_req.id;
        return;
    }
    be_asked(IBCM_SIDR_REQ);
    if (place == RESOLVED_AND_ANSWERED) {
        struct ibcm_params params = here->params;
        params.private_data = (struct span){0};
        assert_int_equal(ibcm_accept(here->ibcm, conn, &params, net.now), 0);
    }
}

static void come_to(enum place place)
{
    net_init(&net, 1);
    here->answer = NET_WAITS;
    conn = NULL;
    asked = (struct ibcm_message){.kind = IBCM_KIND_COUNT};
    our_id = 0x05777777;
    our_qp = here->params.qp_num;
    their_id = THEIR_ID;
    their_qp = THEIR_QP;
    transaction = 0x1122334455667788;
    if (place >= RESOLVES) {
        come_of_datagrams(place);
    } else if (place >= IS_ASKED_REQ_RCVD) {
        come_as_who_is_asked(place);
    } else if (place != NOBODY) {
        come_as_who_asks(place);
    }
    take_events();
}

/* ---- the file -------------------------------------------------------------------------------- */

static const char *state_name(void)
{
    return conn != NULL ? ibcm_state_facts(ibcm_conn_state(conn))->name : "-";
}

// What a letter has brought about: the names of messages that left, in a line.
static struct outcome weft_says(enum place place, enum letter letter, char *answers, size_t len)
{
    come_to(place);
    const char *before = state_name();
    const char *event = "-";
    memset(net.sent, 0, sizeof net.sent);
    memset(here->count, 0, sizeof here->count);
    say_letter(letter);
    answers[0] = '\0';
    for (unsigned kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        for (unsigned i = 0; i < net.sent[kind]; i++) {
            const size_t at = strlen(answers);
            snprintf(answers + at, len - at, "%s%s", at > 0 ? " " : "",
                     ibcm_kind_name((enum ibcm_kind)kind));
        }
    }
    for (unsigned e = 1; e < IBCM_EVENT_COUNT; e++) {
        event = here->count[e] > 0 ? ibcm_event_name((enum ibcm_event_type)e) : event;
    }
    const char *after = state_name();
    net_fini(&net);
    return (struct outcome){answers[0] != '\0' ? answers : "-", event,
                            strcmp(before, after) != 0 ? after : "-"};
}

static bool is_same(const struct outcome *a, const struct outcome *b)
{
    return strcmp(a->answer, b->answer) == 0 && strcmp(a->event, b->event) == 0 &&
           strcmp(a->next, b->next) == 0;
}

// Whether the letter has to do with the connection, or with there being none.
static bool concerns(enum letter letter, enum place place)
{
    const bool is_req = letter <= REQ_STALE, is_sidr = letter >= SIDR_REQ && letter < LAP;
    const bool has_twin = letter == REQ_OTHER_QP || letter == REQ_STALE || letter == REP_OTHER_QP ||
                          letter == REP_OTHER_ID || letter == REP_NOBODY;
    if (place == NOBODY) {
        return !has_twin;
    }
    if (letter == REQ_NOBODY || letter == SIDR_REQ_NOBODY) {
        return false;
    }
    if (place >= RESOLVES) {
        return is_sidr && (letter != SIDR_REQ || place != RESOLVES);
    }
    return !is_sidr && (!is_req || place >= IS_ASKED_REQ_RCVD);
}

static const char *role_of(enum place place)
{
    return place == NOBODY             ? "without a connection"
           : place < IS_ASKED_REQ_RCVD ? "who asks"
           : place < RESOLVES          ? "who is asked"
                                       : "datagrams";
}

static char text[1 << 16];

static size_t put_line(size_t at, enum letter letter, const struct outcome *weft,
                       const struct outcome *of_linux)
{
    char line[200];
    int len = snprintf(line, sizeof line, "    %-24s %-9s %-17s %-14s", letter_names[letter],
                       weft->answer, weft->event, weft->next);
    if (!is_same(weft, of_linux)) {
        len += snprintf(line + len, sizeof line - (size_t)len, " | Linux: %s, %s, %s",
                        of_linux->answer, of_linux->event, of_linux->next);
    }
    while (len > 0 && line[len - 1] == ' ') {
        line[--len] = '\0';
    }
    return (size_t)snprintf(text + at, sizeof text - at, "%s\n", line);
}

static void each_message_in_each_state_is_as_written_down(void **state)
{
    static const struct outcome nothing = SAYS("-", "-", "-");
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "What comes, what is answered, told, and which state follows "
                                 "(-: none). What is not listed is passed over, by Linux too.\n");
    for (unsigned place = 0; place < PLACE_COUNT; place++) {
        come_to((enum place)place);
        at += (size_t)snprintf(text + at, sizeof text - at, "\n%s: %s\n",
                               role_of((enum place)place), state_name());
        net_fini(&net);
        for (unsigned letter = 0; letter < LETTER_COUNT; letter++) {
            if (!concerns((enum letter)letter, (enum place)place)) {
                continue;
            }
            char answers[64];
            const struct outcome *of_linux = &linux_says[place][letter];
            const struct outcome weft =
                weft_says((enum place)place, (enum letter)letter, answers, sizeof answers);
            of_linux = of_linux->answer != NULL ? of_linux : &nothing;
            if (!is_same(&weft, &nothing) || !is_same(of_linux, &nothing)) {
                at += put_line(at, (enum letter)letter, &weft, of_linux);
            }
        }
    }
    golden_compare("ibcm/golden/linux.txt", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_in_each_state_is_as_written_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
