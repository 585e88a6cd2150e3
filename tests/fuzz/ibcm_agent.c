// A connection manager between an owner and a peer who both do anything: octets choose what. After
// each step everything holds, and when the owner has let go of all, time alone ends all.
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "ibcm/ibcm.h"
#include "wire/ibcm.h"
#include "wire/ip_cm.h"
#include "wire/mad.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNS = 16, IDS = 4, PORT = 7 };

static const struct in6_addr ours = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 1}};
static const struct in6_addr theirs = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 2}};

struct world {
    struct ibcm *ibcm;
    struct ibcm_listener listeners[2];
    instant_ns now;
    struct span in;
    struct ibcm_conn *conns[CONNS]; // the owner's
    uint32_t ids[IDS];              // of the agent's, those that were heard of last
    unsigned heard;
};

static uint8_t draw(struct world *w)
{
    if (w->in.len == 0) {
        return 0;
    }
    uint8_t octet = w->in.ptr[0];
    w->in = span_skip(w->in, 1);
    return octet;
}

// A careful listener to what the agent says.
static bool on_put(void *ctx, const struct ibcm_ends *ends, const uint8_t *mad)
{
    struct world *w = ctx;
    struct ibcm_message m;
    CHECK(memcmp(&ends->local, &ours, sizeof ours) == 0);
    CHECK(ibcm_message_parse(span_of(mad, MAD_LEN), &m) == IBCM_PARSE_OK);
    bool is_sidr = m.kind == IBCM_SIDR_REQ || m.kind == IBCM_SIDR_REP;
    w->ids[w->heard++ % IDS] = is_sidr ? m.sidr_req.id : m.req.local_id;
    return true;
}

static void own(struct world *w, struct ibcm_conn *conn)
{
    for (unsigned i = 0; i < CONNS; i++) {
        if (w->conns[i] == NULL) {
            w->conns[i] = conn;
            return;
        }
    }
    CHECK(false);
}

static void settle(struct world *w)
{
    struct ibcm_event e;
    while (ibcm_next_event(w->ibcm, &e)) {
        CHECK(e.private_data.len <= IBCM_SIDR_REQ_PRIVATE_LEN);
        if (e.type == IBCM_EVENT_CONNECT_REQUEST) {
            own(w, e.conn);
        }
    }
    ibcm_check(w->ibcm);
}

static struct ibcm_params params_of(struct world *w)
{
    return (struct ibcm_params){
        .qp_num = 2 + draw(w), .responder_resources = draw(w), .initiator_depth = 5, .path_mtu = 3};
}

static void owner_begins(struct world *w)
{
    const struct ibcm_target target = {
        .ends = {.local = ours, .remote = theirs}, .ps = IP_CM_PS_TCP, .port = PORT};
    const struct ibcm_params params = params_of(w);
    int error;
    struct ibcm_conn *conn =
        draw(w) & 1 ? ibcm_resolve(w->ibcm, &target, (struct span){0}, w, w->now, &error)
                    : ibcm_connect(w->ibcm, &target, &params, w, w->now, &error);
    if (conn != NULL) {
        own(w, conn);
    }
}

static void owner_says(struct world *w)
{
    unsigned at = draw(w) % CONNS;
    struct ibcm_conn *conn = w->conns[at];
    const struct ibcm_params params = params_of(w);
    if (conn == NULL) {
        return;
    }
    switch (draw(w) % 7) {
    case 0:
        ibcm_accept(w->ibcm, conn, &params, w->now);
        break;
    case 1:
        ibcm_reject(w->ibcm, conn, draw(w), (struct span){0}, w->now);
        break;
    case 2:
        ibcm_establish(w->ibcm, conn, w->now);
        break;
    case 3:
        ibcm_delay(w->ibcm, conn, w->now);
        break;
    case 4:
        ibcm_on_communication(w->ibcm, conn, w->now);
        break;
    case 5:
        ibcm_disconnect(w->ibcm, conn, w->now);
        break;
    default:
        w->conns[at] = NULL;
        ibcm_drop(w->ibcm, conn, w->now);
    }
}

// A message as it should be, for one of the agent's ids.
static void message_make(struct world *w, const uint8_t *header, uint8_t *mad)
{
    struct ibcm_message m = {.kind = (enum ibcm_kind)(draw(w) % IBCM_KIND_COUNT)};
    uint32_t id = 0x1000 + draw(w) % 8, of = w->ids[draw(w) % IDS];
    uint32_t qp_num = 0x100 + draw(w) % 8;
    m.ids = (struct ibcm_ids){.local_id = id, .remote_id = of};
    if (m.kind == IBCM_REQ) {
        m.req = (struct ibcm_req){
            .local_id = id,
            .service_id = ip_cm_service_id(IP_CM_PS_TCP, PORT),
            .qp_num = qp_num,
            .path_mtu = 3,
            .max_cm_retries = 3,
            .primary = {.local_gid = theirs, .remote_gid = ours},
            .private_data = span_of(header, IP_CM_HEADER_LEN),
        };
    } else if (m.kind == IBCM_REP) {
        m.rep = (struct ibcm_rep){.local_id = id, .remote_id = of, .qp_num = qp_num};
    } else if (m.kind == IBCM_DREQ) {
        m.dreq = (struct ibcm_dreq){.local_id = id, .remote_id = of, .remote_qp_num = draw(w)};
    } else if (m.kind == IBCM_MRA) {
        m.mra = (struct ibcm_mra){id, of, (enum ibcm_subject)(draw(w) % 2), draw(w) & 0x1f, {0}};
    } else if (m.kind == IBCM_REJ) {
        m.rej = (struct ibcm_rej){.local_id = id, .remote_id = draw(w) & 1 ? of : 0, .reason = 28};
    } else if (m.kind == IBCM_SIDR_REQ) {
        m.sidr_req = (struct ibcm_sidr_req){id, 0xffff, ip_cm_service_id(IP_CM_PS_UDP, PORT),
                                            span_of(header, IP_CM_HEADER_LEN)};
    } else if (m.kind == IBCM_SIDR_REP) {
        m.sidr_rep = (struct ibcm_sidr_rep){
            .id = of, .status = draw(w) & 1, .service_id = ip_cm_service_id(IP_CM_PS_TCP, PORT)};
    }
    ibcm_message_emit(&m, mad);
}

// It is bent at up to three places, and comes from elsewhere at times.
static void peer_says(struct world *w)
{
    uint8_t mad[MAD_LEN], header[IP_CM_HEADER_LEN];
    struct ibcm_ends ends = {.local = ours, .remote = theirs};
    const struct ip_cm_header h = {.source = theirs, .destination = ours};
    ip_cm_header_emit(&h, header);
    message_make(w, header, mad);
    for (unsigned bends = draw(w) % 4; bends > 0; bends--) {
        unsigned at = draw(w);
        mad[at] = draw(w);
    }
    ends.remote.s6_addr[15] ^= (uint8_t)((draw(w) & 0x0f) == 0x0f);
    ibcm_on_mad(w->ibcm, &ends, span_of(mad, sizeof mad), draw(w) % 3, w->now);
}

static void time_passes(struct world *w)
{
    w->now += (instant_ns)draw(w) * 100 * NS_PER_MS;
    ibcm_on_deadline(w->ibcm, w->now);
}

static void end(struct world *w)
{
    for (unsigned i = 0; i < CONNS; i++) {
        if (w->conns[i] != NULL) {
            ibcm_drop(w->ibcm, w->conns[i], w->now);
            ibcm_check(w->ibcm);
        }
    }
    for (unsigned i = 0; i < 1000 && ibcm_next_deadline(w->ibcm) != INSTANT_NEVER; i++) {
        ibcm_on_deadline(w->ibcm, ibcm_next_deadline(w->ibcm));
        ibcm_check(w->ibcm);
    }
    CHECK(ibcm_next_deadline(w->ibcm) == INSTANT_NEVER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {.in = span_of(data, size), .now = NS_PER_S};
    struct ibcm_config c = ibcm_config_default();
    c.conn_max = CONNS;
    c.half_open_max = CONNS / 2;
    c.source_max = CONNS / 4;
    c.sink = (struct ibcm_sink){on_put, &w};
    w.ibcm = ibcm_create(&c);
    CHECK(w.ibcm != NULL);
    ibcm_listen(w.ibcm, &w.listeners[0], IP_CM_PS_TCP, PORT, &in6addr_any, 0, &w);
    ibcm_listen(w.ibcm, &w.listeners[1], IP_CM_PS_UDP, PORT, &ours, 3, &w);
    while (w.in.len > 0) {
        static void (*const steps[])(struct world *) = {owner_begins, owner_says, peer_says,
                                                        time_passes};
        steps[draw(&w) % 4](&w);
        settle(&w);
    }
    end(&w);
    ibcm_destroy(w.ibcm);
    return 0;
}
