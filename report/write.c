// The report as JSON: what each part of it is called.
#include <inttypes.h>

#include "base/histogram.h"
#include "base/port_ulpdu.h"
#include "base/qp_state.h"
#include "base/transport.h"
#include "conn/conn.h"
#include "conn/listener.h"
#include "iwarp/qp.h"
#include "meet/meeting.h"
#include "mem/verdict.h"
#include "mpa/placer.h"
#include "mpa/rx.h"
#include "mpa/tx.h"
#include "report/json.h"
#include "report/report.h"
#include "text/address.h"
#include "wire/extension.h"
#include "wq/allotment.h"
#include "wq/latency.h"
#include "wq/read_sched.h"

/* ---- the parts ------------------------------------------------------------------------------- */

static void write_mpa(struct json *o, const struct report_endpoint *ep)
{
    struct json rx = json_open(o, "mpa_in");
#define X(name, text) json_number(&rx, #name, ep->mpa_in.name);
    MPA_RX_COUNTERS(X)
#undef X
    json_close(&rx);
    if (ep->is_placing) {
        struct json early = json_open(o, "mpa_early");
#define X(name, text) json_number(&early, #name, ep->mpa_early.name);
        MPA_PLACER_COUNTERS(X)
#undef X
        json_close(&early);
    }
    struct json tx = json_open(o, "mpa_out");
#define X(name, text) json_number(&tx, #name, ep->mpa_out.name);
    MPA_TX_COUNTERS(X)
#undef X
    json_close(&tx);
}

static void write_pairs(struct json *o, const char *name, const struct report *r,
                        const struct report_pairs *pairs)
{
    if (!pairs->has_any) {
        return;
    }
    struct json counters = json_open(o, name);
    for (uint32_t i = pairs->first; i < pairs->first + pairs->count; i++) {
        json_number(&counters, r->pairs[i].name, r->pairs[i].value);
    }
    json_close(&counters);
}

static void write_address(struct json *o, const char *name, const struct sockaddr_storage *addr)
{
    char text[TEXT_ADDRESS_MAX];
    if (addr->ss_family != AF_UNSPEC) {
        json_text(o, name, text_address_format((const struct sockaddr *)addr, text));
    }
}

static void write_endpoint(struct json *parent, const struct report *r,
                           const struct report_endpoint *ep)
{
    struct json o = json_open(parent, NULL);
    json_text(&o, "state", ep->state);
    write_address(&o, "local", &ep->local);
    write_address(&o, "peer", &ep->peer);
    if (ep->role != NULL) {
        json_text(&o, "role", ep->role);
        json_text(&o, "startup", ep->startup);
    }
    if (ep->is_of_host) {
        json_text(&o, "path", "memory");
    }
    if (ep->has_qp) {
        json_number(&o, "qp_num", ep->qp_num);
    }
    if (ep->is_listening) {
        struct json admissions = json_open(&o, "admissions");
#define X(name, text) json_number(&admissions, #name, ep->admissions.name);
        CONN_LISTENER_COUNTERS(X)
#undef X
        json_close(&admissions);
    }
    write_mpa(&o, ep);
    write_pairs(&o, "tcp", r, &ep->tcp);
    json_close(&o);
}

// What the connection agreed on.
static const char *oneshot_name(int agreed)
{
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

static void write_counters(struct json *o, const char *name, const struct report *r,
                           const struct report_counters *from)
{
    struct json counters = json_open(o, name);
    from->ops->counters_each(r->words + from->first, json_if_counted, &counters);
    json_close(&counters);
}

static void write_peer(struct json *o, const struct report_qp *qp)
{
    char host[TEXT_ADDRESS_MAX];
    if (text_address_host((const struct sockaddr *)&qp->peer, host)) {
        json_text(o, "peer", host);
        json_number(o, "peer_qp_num", qp->peer_qp_num);
    }
}

static void write_refusal(struct json *o, const char *name, const char *text)
{
    if (text != NULL) {
        json_foreign_text(o, name, text); // an RFC's words, quotation marks perhaps
    }
}

static void write_qp(struct json *parent, const struct report *r, const struct report_qp *qp)
{
    const struct qp_attributes *attributes = &qp->attributes;
    struct json o = json_open(parent, NULL);
    json_number(&o, "qp_num", qp->qp_num);
    json_text(&o, "state", qp_state_name(attributes->state));
    if (attributes->phase != NULL) {
        json_text(&o, "stream", attributes->phase);
    }
    write_peer(&o, qp);
    json_number(&o, "ird", attributes->ird);
    json_number(&o, "ord", attributes->ord);
    json_number(&o, qp->ops->segment_name, attributes->segment_len);
    if (qp->ops->oneshot_agreed != NULL) {
        json_text(&o, "oneshot", oneshot_name(qp->oneshot));
    }
    json_number(&o, "read_request_len", attributes->request_len);
    json_number(&o, "read_answer_len", attributes->answer_len);
    json_number(&o, "sq_count", attributes->sq_count);
    json_number(&o, "rq_count", attributes->rq_count);
    json_number(&o, "reads_outstanding", attributes->reads_outstanding);
    json_number(&o, "reads_due", attributes->reads_due);
    if (attributes->has_psns) {
        json_number(&o, "sq_psn", attributes->sq_psn);
        json_number(&o, "rq_psn", attributes->rq_psn);
        json_number(&o, "held", attributes->held_count);
        json_number(&o, "in_flight", attributes->in_flight_count);
    }
    write_refusal(&o, "refused", attributes->refused);
    write_refusal(&o, "refused_by_peer", attributes->refused_by_peer);
    write_counters(&o, "counters", r, &qp->counters);
    json_close(&o);
}

static const char *const close_names[QP_CLOSE_REASON_COUNT] = {
    [QP_CLOSE_PEER] = "by_peer",
    [QP_CLOSE_RESET] = "by_reset",
    [QP_CLOSE_TIMEOUT] = "by_timeout",
    [QP_CLOSE_LOCAL] = "here",
};

static void write_reads(struct json *parent, const struct report_reads *reads)
{
    struct json o = json_open(parent, "reads");
    json_number(&o, "allotment", reads->allotment_len);
    json_number(&o, "allotment_base", reads->allotment_base_len);
    json_number(&o, "connections", reads->connection_count);
    json_number(&o, "in_force_min", reads->in_force_min_len);
    json_number(&o, "in_force_max", reads->in_force_max_len);
    json_number(&o, "memory_short", reads->is_memory_short);
    json_number(&o, "contexts", reads->context_count);
    json_number(&o, "contexts_in_use", reads->contexts_in_use);
    json_number(&o, "waiting", reads->waiting_count);
#define X(name, text) json_number(&o, #name, reads->counters.name);
    READ_SCHED_COUNTERS(X)
#undef X
    struct json changes = json_open(&o, "allotment_changes");
    for (unsigned i = 0; i < ALLOTMENT_EVENT_COUNT; i++) {
        json_if_counted(&changes, allotment_event_name((enum allotment_event)i), reads->changes[i]);
    }
    json_close(&changes);
    json_close(&o);
}

static void write_mpa_totals(struct json *o, const struct report_device *d)
{
    struct json closed_in = json_open(o, "mpa_in_total");
#define X(name, text) json_number(&closed_in, #name, d->mpa_in_total.name);
    MPA_RX_COUNTERS(X)
#undef X
    json_close(&closed_in);
    struct json closed_early = json_open(o, "mpa_early_total");
#define X(name, text) json_number(&closed_early, #name, d->mpa_early_total.name);
    MPA_PLACER_COUNTERS(X)
#undef X
    json_close(&closed_early);
    struct json closed_out = json_open(o, "mpa_out_total");
#define X(name, text) json_number(&closed_out, #name, d->mpa_out_total.name);
    MPA_TX_COUNTERS(X)
#undef X
    json_close(&closed_out);
}

static void write_startup(struct json *o, const struct report_device *d)
{
    struct json startup = json_open(o, "startup");
#define X(name, text) json_number(&startup, #name, d->startup.name);
    CONN_COUNTERS(X)
#undef X
    for (unsigned i = 1; i < CONN_FAILURE_COUNT; i++) {
        json_if_counted(&startup, conn_failure_name((enum conn_failure)i), d->startup.refusals[i]);
    }
    json_close(&startup);
    struct json meetings = json_open(o, "meetings");
#define X(name, text) json_if_counted(&meetings, #name, d->meetings.name);
    MEETING_COUNTERS(X)
#undef X
    json_close(&meetings);
    struct json closes = json_open(o, "closes");
    for (unsigned i = 0; i < QP_CLOSE_REASON_COUNT; i++) {
        json_number(&closes, close_names[i], d->closes[i]);
    }
    json_close(&closes);
}

// What is known in buckets for who would merge it, and as percentiles for who would read it.
static void write_histogram(struct json *parent, const char *name, const struct histogram *h)
{
    struct json o = json_open(parent, name);
    json_number(&o, "count", h->count);
    json_number(&o, "sum_ns", h->sum);
    for (unsigned i = 0; i < HISTOGRAM_SHOWN_COUNT; i++) {
        json_number(&o, histogram_shown[i].name,
                    histogram_percentile(h, histogram_shown[i].permille));
    }
    json_number(&o, "max_ns", h->max);
    json_name(&o, "buckets");
    bool has_any = false;
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        if (h->buckets[i] > 0) {
            fprintf(o.out, "%s[%" PRIu64 ",%" PRIu64 "]", has_any ? "," : "[",
                    histogram_bucket_most(h, i), h->buckets[i]);
            has_any = true;
        }
    }
    fputs(has_any ? "]" : "[]", o.out);
    json_close(&o);
}

static void write_latency(struct json *parent, const struct latency *latency)
{
    struct json o = json_open(parent, "latency");
    json_number(&o, "sampled_one_in", LATENCY_SAMPLE_MEAN);
    for (unsigned i = 0; i < LATENCY_OPERATION_COUNT; i++) {
        if (latency->of[i].count > 0) {
            write_histogram(&o, latency_operation_name((enum latency_operation)i), &latency->of[i]);
        }
    }
    json_close(&o);
}

static void write_device(struct json *o, const struct report *r)
{
    const struct report_device *d = &r->device;
    json_number(o, "qps", d->qp_count);
    json_number(o, "cqs", d->cq_count);
    json_number(o, "srqs", d->srq_count);
    json_number(o, "pds", d->live.pds);
    json_number(o, "regions", d->live.regions);
    json_number(o, "windows", d->live.windows);
    json_number(o, "oneshots", d->live.oneshots);
    json_number(o, "sinks", d->live.sinks);
    write_reads(o, &d->reads);
    write_latency(o, &r->latency);
    if (d->has_streams) {
        write_mpa_totals(o, d);
    }
    for (unsigned i = 0; i < d->total_count; i++) {
        write_counters(o, d->totals[i].ops->total_name, r, &d->totals[i]);
    }
    write_pairs(o, "tcp_total", r, &d->tcp_total);
    write_pairs(o, "packets", r, &d->packets);
    if (d->has_streams) {
        write_startup(o, d);
    }
    struct json verdicts = json_open(o, "memory_refusals");
    for (unsigned i = 1; i < MEM_VERDICT_COUNT; i++) {
        json_if_counted(&verdicts, mem_verdict_name((enum mem_verdict)i), d->memory_refusals[i]);
    }
    json_close(&verdicts);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void write_process(struct json *o, const struct report *r)
{
    json_number(o, "pid", r->pid);
    json_foreign_text(o, "program", r->program);
}

void report_write(const struct report *r, FILE *out)
{
    struct json outer = {.out = out};
    struct json o = json_open(&outer, NULL);
    write_process(&o, r);
    struct json device = json_open(&o, r->device.name);
    write_device(&device, r);
    json_close(&device);
    fputs(",\"connections\":[", out);
    for (uint32_t i = 0; i < r->endpoint_count; i++) {
        fputs(i > 0 ? "," : "", out);
        write_endpoint(&outer, r, &r->endpoints[i]);
    }
    fputs("],\"qps\":[", out);
    for (uint32_t i = 0; i < r->qp_count; i++) {
        fputs(i > 0 ? "," : "", out);
        write_qp(&outer, r, &r->qps[i]);
    }
    fputs("]}\n", out);
}

// To whom it is connected: of packets the queue pair says so, of a stream its endpoint.
static const struct sockaddr *peer_of(const struct report *r, const struct report_qp *qp)
{
    for (uint32_t i = 0; i < r->endpoint_count; i++) {
        if (r->endpoints[i].has_qp && r->endpoints[i].qp_num == qp->qp_num) {
            return (const struct sockaddr *)&r->endpoints[i].peer;
        }
    }
    return (const struct sockaddr *)&qp->peer;
}

static void write_reads_of(struct json *parent, const struct report *r, const struct report_qp *qp)
{
    char host[TEXT_ADDRESS_MAX];
    struct json o = json_open(parent, NULL);
    json_number(&o, "qp_num", qp->qp_num);
    if (text_address_host(peer_of(r, qp), host)) {
        json_text(&o, "peer", host);
    }
    json_number(&o, "read_request_len", qp->attributes.request_len);
    json_number(&o, "read_answer_len", qp->attributes.answer_len);
    json_number(&o, "reads_outstanding", qp->attributes.reads_outstanding);
    json_close(&o);
}

void report_write_reads(const struct report *r, FILE *out)
{
    struct json outer = {.out = out};
    struct json o = json_open(&outer, NULL);
    write_process(&o, r);
    json_text(&o, "device", r->device.name);
    write_reads(&o, &r->device.reads);
    fputs(",\"connections\":[", out);
    const char *comma = "";
    for (uint32_t i = 0; i < r->qp_count; i++) {
        if (r->qps[i].is_reading) {
            fputs(comma, out);
            write_reads_of(&outer, r, &r->qps[i]);
            comma = ",";
        }
    }
    fputc(']', out);
    json_close(&o);
    fputc('\n', out);
}
