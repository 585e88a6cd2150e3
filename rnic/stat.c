#include "rnic/stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/sys.h"
#include "rnic/create.h"
#include "rnic/ep.h"
#include "rnic/farewell.h"
#include "rnic/internal.h"
#include "rnic/reads.h"

// Writes `"name": value` pairs with commas between them.
struct object {
    FILE *out;
    bool has_member;
};

static void member_name(struct object *o, const char *name)
{
    fprintf(o->out, "%s\"%s\":", o->has_member ? "," : "", name);
    o->has_member = true;
}

static void member_number(void *ctx, const char *name, uint64_t value)
{
    struct object *o = ctx;
    member_name(o, name);
    fprintf(o->out, "%" PRIu64, value);
}

// The same, but only what has ever counted: refusals and the like have long lists of zeroes.
static void member_if_counted(void *ctx, const char *name, uint64_t value)
{
    if (value != 0) {
        member_number(ctx, name, value);
    }
}

// `text` is one of ours: no quotes, no control characters.
static void member_text(struct object *o, const char *name, const char *text)
{
    member_name(o, name);
    fprintf(o->out, "\"%s\"", text);
}

// `text` is anybody's: a program may have any name.
static void member_foreign_text(struct object *o, const char *name, const char *text)
{
    member_name(o, name);
    fputc('"', o->out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        fprintf(o->out, is_plain ? "%c" : "\\u%04x", c); // octets beyond ASCII as Latin-1
    }
    fputc('"', o->out);
}

static void member_address(struct object *o, const char *name, const struct sockaddr_storage *addr)
{
    char text[ADDRESS_TEXT_LEN];
    member_text(o, name, address_format(addr, text));
}

static struct object object_open(struct object *parent, const char *name)
{
    if (name != NULL) {
        member_name(parent, name);
    }
    fputc('{', parent->out);
    return (struct object){.out = parent->out};
}

static void object_close(struct object *o)
{
    fputc('}', o->out);
}

/* ---- the parts ------------------------------------------------------------------------------- */

static void write_mpa(struct object *o, const struct rnic_ep *ep)
{
    struct object rx = object_open(o, "mpa_in");
#define X(name, text) member_number(&rx, #name, ep->rx.counters.name);
    MPA_RX_COUNTERS(X)
#undef X
    object_close(&rx);
    if (ep->is_placing) {
        struct object early = object_open(o, "mpa_early");
#define X(name, text) member_number(&early, #name, ep->placer.counters.name);
        MPA_PLACER_COUNTERS(X)
#undef X
        object_close(&early);
    }
    struct object tx = object_open(o, "mpa_out");
#define X(name, text) member_number(&tx, #name, ep->tx.counters.name);
    MPA_TX_COUNTERS(X)
#undef X
    object_close(&tx);
}

// Of a stream's connection, or with NULL of all that were closed. Nothing of the kernel's TCP.
static void write_tcp(struct object *o, const char *name, const struct link *link,
                      const struct link_stream *stream)
{
    if (link->ops->tcp_counters != NULL) {
        struct object tcp = object_open(o, name);
        link->ops->tcp_counters(link, stream, member_number, &tcp);
        object_close(&tcp);
    }
}

static void write_packets(struct object *o, const struct link *link)
{
    if (link->ops->packet_counters != NULL) {
        struct object packets = object_open(o, "packets");
        link->ops->packet_counters(link, member_number, &packets);
        object_close(&packets);
    }
}

static void write_endpoint(struct object *parent, const struct rnic_ep *ep)
{
    static const char *const state_names[EP_STATE_COUNT] = {
        [EP_BOUND] = "bound", [EP_LISTENING] = "listening", [EP_STARTING] = "starting",
        [EP_OPEN] = "open",   [EP_CLOSING] = "closing",     [EP_CLOSED] = "closed",
    };
    struct sockaddr_storage addr;
    struct object o = object_open(parent, NULL);
    member_text(&o, "state", state_names[ep->state]);
    if (ep->stream != NULL && ep->stream->link->ops->local_addr(ep->stream, &addr) == 0) {
        member_address(&o, "local", &addr);
    }
    if (ep->state >= EP_STARTING && ep->stream != NULL &&
        ep->stream->link->ops->peer_addr(ep->stream, &addr) == 0) {
        member_address(&o, "peer", &addr);
    }
    if (ep->state >= EP_STARTING) {
        member_text(&o, "role", ep->is_initiator ? "initiator" : "responder");
        member_text(&o, "startup", conn_state_name(ep->conn.state));
    }
    if (ep->qp != NULL) {
        member_number(&o, "qp_num", ep->qp->qp_num);
    }
    if (ep->state == EP_LISTENING) {
        struct object admissions = object_open(&o, "admissions");
#define X(name, text) member_number(&admissions, #name, ep->listener.counters.name);
        CONN_LISTENER_COUNTERS(X)
#undef X
        object_close(&admissions);
    }
    write_mpa(&o, ep);
    if (ep->stream != NULL) {
        write_tcp(&o, "tcp", ep->stream->link, ep->stream);
    }
    object_close(&o);
}

// What the connection agreed on.
static const char *oneshot_name(const struct qp *qp)
{
    int agreed = qp_oneshot_agreed(qp);
    if (agreed <= 0) {
        return "none";
    }
    const bool is_flags = (agreed & EXTENSION_ONESHOT_FLAGS) != 0;
    switch (agreed & EXTENSION_ONESHOT_PARTS) {
    case EXTENSION_ONESHOT_ADVERTISE:
        return is_flags ? "flags advertise" : "opcode advertise";
    case EXTENSION_ONESHOT_CLOSE:
        return is_flags ? "flags close" : "opcode close";
    default:
        return is_flags ? "flags" : "opcode";
    }
}

static void write_qp(struct object *parent, struct rnic_qp *qp)
{
    struct qp_attributes attributes = qp_query(qp->qp);
    struct object o = object_open(parent, NULL);
    member_number(&o, "qp_num", qp->qp_num);
    member_text(&o, "state", qp_state_name(attributes.state));
    member_text(&o, "stream", qp_stream_state_name(qp_stream_state(qp->qp)));
    member_number(&o, "ird", attributes.ird);
    member_number(&o, "ord", attributes.ord);
    member_number(&o, "mulpdu", attributes.mulpdu);
    member_text(&o, "oneshot", oneshot_name(qp->qp));
    member_number(&o, "read_request_len", attributes.request_len);
    member_number(&o, "read_answer_len", attributes.answer_len);
    member_number(&o, "sq_count", attributes.sq_count);
    member_number(&o, "rq_count", attributes.rq_count);
    struct object counters = object_open(&o, "counters");
    qp_counters_each(qp_counters(qp->qp), member_if_counted, &counters);
    object_close(&counters);
    object_close(&o);
}

static const char *const close_names[QP_CLOSE_REASON_COUNT] = {
    [QP_CLOSE_PEER] = "by_peer",
    [QP_CLOSE_RESET] = "by_reset",
    [QP_CLOSE_TIMEOUT] = "by_timeout",
    [QP_CLOSE_LOCAL] = "here",
};

static void write_reads(struct object *parent, const struct rnic *rnic)
{
    struct rnic_reads reads = reads_query(rnic);
    struct object o = object_open(parent, "reads");
    member_number(&o, "allotment", reads.allotment_len);
    member_number(&o, "allotment_base", reads.allotment_base_len);
    member_number(&o, "connections", reads.connection_count);
    member_number(&o, "in_force_min", reads.in_force_min_len);
    member_number(&o, "in_force_max", reads.in_force_max_len);
    member_number(&o, "memory_short", reads.is_memory_short);
    member_number(&o, "contexts", reads.context_count);
    member_number(&o, "contexts_in_use", reads.contexts_in_use);
    member_number(&o, "waiting", reads.waiting_count);
#define X(name, text) member_number(&o, #name, reads.counters.name);
    READ_SCHED_COUNTERS(X)
#undef X
    struct object changes = object_open(&o, "allotment_changes");
    for (unsigned i = 0; i < ALLOTMENT_EVENT_COUNT; i++) {
        member_if_counted(&changes, allotment_event_name((enum allotment_event)i),
                          reads.changes[i]);
    }
    object_close(&changes);
    object_close(&o);
}

static void write_device(struct object *o, struct rnic *rnic)
{
    struct mem_live live = mem_table_live(rnic->mem);
    member_number(o, "qps", rnic->qp_count);
    member_number(o, "cqs", rnic->cq_count);
    member_number(o, "srqs", rnic->srq_count);
    member_number(o, "pds", live.pds);
    member_number(o, "regions", live.regions);
    member_number(o, "windows", live.windows);
    member_number(o, "oneshots", live.oneshots);
    member_number(o, "sinks", live.sinks);
    write_reads(o, rnic);
    struct object closed_in = object_open(o, "mpa_in_total");
#define X(name, text) member_number(&closed_in, #name, rnic->mpa_in_total.name);
    MPA_RX_COUNTERS(X)
#undef X
    object_close(&closed_in);
    struct object closed_early = object_open(o, "mpa_early_total");
#define X(name, text) member_number(&closed_early, #name, rnic->mpa_early_total.name);
    MPA_PLACER_COUNTERS(X)
#undef X
    object_close(&closed_early);
    struct object closed_out = object_open(o, "mpa_out_total");
#define X(name, text) member_number(&closed_out, #name, rnic->mpa_out_total.name);
    MPA_TX_COUNTERS(X)
#undef X
    object_close(&closed_out);
    struct object closed_qps = object_open(o, "qps_total");
    qp_counters_each(&rnic->qps_total, member_if_counted, &closed_qps);
    object_close(&closed_qps);
    write_tcp(o, "tcp_total", rnic->shard.link, NULL);
    write_packets(o, rnic->shard.link);
    struct object startup = object_open(o, "startup");
#define X(name, text) member_number(&startup, #name, rnic->conn_counters.name);
    CONN_COUNTERS(X)
#undef X
    for (unsigned i = 1; i < CONN_FAILURE_COUNT; i++) {
        member_if_counted(&startup, conn_failure_name((enum conn_failure)i),
                          rnic->conn_counters.refusals[i]);
    }
    object_close(&startup);
    struct object meetings = object_open(o, "meetings");
#define X(name, text) member_if_counted(&meetings, #name, rnic->meeting_counters.name);
    MEETING_COUNTERS(X)
#undef X
    object_close(&meetings);
    struct object closes = object_open(o, "closes");
    for (unsigned i = 0; i < QP_CLOSE_REASON_COUNT; i++) {
        member_number(&closes, close_names[i], rnic->closes[i]);
    }
    object_close(&closes);
    struct object verdicts = object_open(o, "memory_refusals");
    for (unsigned i = 1; i < MEM_VERDICT_COUNT; i++) {
        member_if_counted(&verdicts, mem_verdict_name((enum mem_verdict)i),
                          mem_table_verdict_count(rnic->mem, (enum mem_verdict)i));
    }
    object_close(&verdicts);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void write_process(struct object *o)
{
    member_number(o, "pid", (uint64_t)getpid());
    member_foreign_text(o, "program", program_invocation_short_name);
}

static void write_locked(struct rnic *rnic, FILE *out)
{
    struct object outer = {.out = out};
    struct object o = object_open(&outer, NULL);
    write_process(&o);
    struct object device = object_open(&o, "weft0");
    write_device(&device, rnic);
    object_close(&device);
    const char *separator = "";
    fputs(",\"connections\":[", out);
    for (struct list_link *l = rnic->shard.endpoints.next; l != &rnic->shard.endpoints;
         l = l->next) {
        fputs(separator, out);
        write_endpoint(&outer, LIST_ENTRY(l, struct rnic_ep, all_link));
        separator = ",";
    }
    separator = "";
    fputs("],\"qps\":[", out);
    for (struct list_link *l = rnic->all_qps.next; l != &rnic->all_qps; l = l->next) {
        fputs(separator, out);
        write_qp(&outer, LIST_ENTRY(l, struct rnic_qp, all_link));
        separator = ",";
    }
    fputs("]}\n", out);
}

// The lock is held while the counters are looked at, never while a file or pipe takes them.
void stat_write(struct rnic *rnic, FILE *out)
{
    char *text = NULL;
    size_t text_len = 0;
    FILE *memory = open_memstream(&text, &text_len);
    if (memory == NULL) {
        return;
    }
    rnic_enter(rnic);
    write_locked(rnic, memory);
    rnic_leave(rnic, 0);
    fclose(memory);
    if (text != NULL) {
        fwrite(text, 1, text_len, out);
    }
    free(text);
}

void stat_write_reads(struct rnic *rnic, FILE *out)
{
    struct object outer = {.out = out};
    rnic_enter(rnic);
    struct object o = object_open(&outer, NULL);
    write_process(&o);
    write_reads(&o, rnic);
    object_close(&o);
    rnic_leave(rnic, 0);
    fputc('\n', out);
}

void stat_write_file(struct rnic *rnic, const char *path)
{
    char name[512] = "";
    const char *mark = strstr(path, "%p");
    if (mark != NULL) {
        snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - path), path, (int)getpid(), mark + 2);
    } else {
        snprintf(name, sizeof name, "%s", path);
    }
    int fd = sys_open_own(name, 0);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL) {
        fprintf(stderr, "weft: cannot write the counters to %s (WEFT_STATS_FILE): %s\n", name,
                strerror(fd < 0 ? -fd : errno));
        return;
    }
    sys_ftruncate(fd, 0); // behind the look at whose it is; a pipe or device has no length
    stat_write(rnic, out);
    fclose(out);
}
