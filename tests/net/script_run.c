#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/net/script.h"
#include "wire/icmp.h"

// A script as it runs.
struct run {
    struct script_error *e;
    struct script_host *h;
    bool has_begun;
    instant_ns at_ns;            // of the line before,
    bool is_held;                // behind which the link has not looked yet
    struct script_connection *c; // the line's
    struct script_words *w;
};

// When a line is due: from `first_ns` to `last_ns`.
struct due {
    instant_ns first_ns, last_ns;
};

static bool run_setting(struct run *r)
{
    return r->has_begun ? script_fail(r->e, "a setting is said before the first time")
                        : script_setting_read(r->e, r->w, &r->h->settings);
}

/* ---- times ----------------------------------------------------------------------------------- */

static double seconds(const struct run *r, instant_ns at_ns)
{
    return (double)(at_ns - r->h->began_ns) / (double)NS_PER_S;
}

// "+.2", "+.2~+.3", "1.5", "1.5~2": behind the line before, or since the beginning.
static bool due_read(struct run *r, char *text, struct due *ret)
{
    char *second = strchr(text, '~');
    duration_ns first, last;
    instant_ns from_ns = text[0] == '+' ? r->at_ns : r->h->began_ns;
    text += text[0] == '+';
    if (second != NULL) {
        *second++ = '\0';
        second += *second == '+';
    }
    if (!script_duration(r->e, text, &first) ||
        !script_duration(r->e, second == NULL ? text : second, &last)) {
        return false;
    }
    *ret = (struct due){from_ns + first, from_ns + last};
    return ret->first_ns >= r->at_ns || script_fail(r->e, "this time is over");
}

static bool expect_nothing(struct run *r)
{
    struct script_seen seen;
    char text[512];
    struct script_packet *p = script_host_take(r->h);
    if (p == NULL) {
        return true;
    }
    double at_s = seconds(r, p->at_ns);
    bool is_known = script_wire_read(r->e, r->h, p, &seen);
    free(p);
    return is_known && script_fail(r->e, "not expected, at %.6f: > %s", at_s,
                                   script_seen_format(&seen, text, sizeof text));
}

static bool wait_until(struct run *r, instant_ns at_ns)
{
    bool is_same_look = r->is_held && at_ns == r->at_ns;
    r->is_held = false;
    if (is_same_look) {
        return true;
    }
    if (!script_host_wait(r->h, at_ns, false)) {
        return script_fail(r->e, "a deadline that is due again and again");
    }
    r->at_ns = at_ns;
    return expect_nothing(r);
}

/* ---- segments -------------------------------------------------------------------------------- */

static bool run_icmp(struct run *r)
{
    static const struct {
        const char *name;
        uint8_t type, code, type_v6, code_v6;
    } messages[] = {
        {"net-unreachable", 3, 0, 1, 0},
        {"host-unreachable", 3, 1, 1, 3},
        {"protocol-unreachable", 3, 2, 4, 1},
        {"port-unreachable", 3, 3, 1, 4},
        {"too-big", 3, 4, 2, 0},
        {"net-prohibited", 3, 9, 1, 6},
        {"host-prohibited", 3, 10, 1, 5},
        {"admin-prohibited", 3, 13, 1, 1},
        {"source-quench", 4, 0, 4, 0},
        {"time-exceeded", 11, 0, 3, 0},
        {"parameter-problem", 12, 0, 4, 0},
    };
    const char *name = script_word_next(r->w);
    uint32_t mtu = 0, seq = 0;
    bool is_v6 = r->h->settings.family == 6;
    while (r->w->at < r->w->count) {
        uint32_t *into = script_word_take(r->w, "mtu")   ? &mtu
                         : script_word_take(r->w, "seq") ? &seq
                                                         : NULL;
        if (into == NULL || !script_next_number(r->e, r->w, into)) {
            return script_fail(r->e, "a message has 'mtu N' and 'seq N'");
        }
    }
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        if (name != NULL && strcmp(name, messages[i].name) == 0) {
            script_wire_send_icmp(r->h, r->c, is_v6 ? messages[i].type_v6 : messages[i].type,
                                  is_v6 ? messages[i].code_v6 : messages[i].code, mtu, seq);
            script_host_look(r->h);
            return true;
        }
    }
    return script_fail(r->e, "no message is called '%s'", name == NULL ? "" : name);
}

static bool run_in(struct run *r, const struct due *due, bool is_held)
{
    struct script_segment s;
    if (!wait_until(r, due->first_ns)) {
        return false;
    }
    if (script_word_take(r->w, "icmp")) {
        return run_icmp(r);
    }
    if (!script_segment_read(r->e, r->w, &s)) {
        return false;
    }
    script_wire_send(r->h, r->c, &s);
    r->is_held = is_held;
    if (!is_held) {
        script_host_look(r->h);
    }
    return true;
}

static bool expect_one(struct run *r, const struct due *due, const struct script_segment *wanted,
                       unsigned index)
{
    struct script_seen seen;
    char text[512];
    if (!script_host_wait(r->h, due->last_ns + r->h->settings.tolerance_ns, true)) {
        return script_fail(r->e, "a deadline that is due again and again");
    }
    struct script_packet *p = script_host_take(r->h);
    if (p == NULL) {
        return script_fail(r->e, "nothing left from %.6f to %.6f", seconds(r, due->first_ns),
                           seconds(r, due->last_ns));
    }
    instant_ns at_ns = p->at_ns;
    bool is_known = script_wire_read(r->e, r->h, p, &seen);
    free(p);
    if (!is_known) {
        return false;
    }
    if (seen.connection != r->c || !script_seen_is(&seen, wanted, index)) {
        return script_fail(r->e, "what left at %.6f is: @%u > %s", seconds(r, at_ns),
                           (unsigned)(seen.connection - r->h->connection),
                           script_seen_format(&seen, text, sizeof text));
    }
    if (at_ns + r->h->settings.tolerance_ns < due->first_ns ||
        at_ns > due->last_ns + r->h->settings.tolerance_ns) {
        return script_fail(r->e, "it left at %.6f, not from %.6f to %.6f", seconds(r, at_ns),
                           seconds(r, due->first_ns), seconds(r, due->last_ns));
    }
    r->at_ns = at_ns > r->at_ns ? at_ns : r->at_ns;
    return true;
}

static bool run_out(struct run *r, const struct due *due)
{
    struct script_segment s;
    if (!script_segment_read(r->e, r->w, &s)) {
        return false;
    }
    for (unsigned i = 0; i < s.count; i++) {
        if (!expect_one(r, due, &s, i)) {
            return false;
        }
    }
    return true;
}

/* ---- what the program calls ------------------------------------------------------------------ */

static bool run_listen(struct run *r)
{
    uint32_t backlog = 8, half_open = 8, retries = 5;
    bool answers_once = script_word_take(r->w, "once");
    while (r->w->at < r->w->count) {
        uint32_t *into = script_word_take(r->w, "backlog")     ? &backlog
                         : script_word_take(r->w, "half_open") ? &half_open
                         : script_word_take(r->w, "retries")   ? &retries
                                                               : NULL;
        if (into == NULL || !script_next_number(r->e, r->w, into)) {
            return script_fail(r->e,
                               "listen has 'once', 'backlog N', 'half_open N' and 'retries N'");
        }
    }
    int error = script_host_listen(r->h, backlog, half_open, retries, answers_once);
    return error == 0 || script_fail(r->e, "listen: %s", strerror(-error));
}

static bool run_unlisten(struct run *r)
{
    script_host_unlisten(r->h);
    return true;
}

static bool run_accept(struct run *r)
{
    struct script_host *h = r->h;
    for (unsigned i = 0; i < h->waiting_count; i++) {
        if (h->waiting[i] == r->c) {
            h->waiting_count--;
            h->listener.waiting_count--;
            memmove(h->waiting + i, h->waiting + i + 1,
                    (h->waiting_count - i) * sizeof h->waiting[0]);
            return true;
        }
    }
    return script_fail(r->e, "no such connection waits to be accepted");
}

static bool run_connect(struct run *r)
{
    return script_host_connect(r->h, r->c) || script_fail(r->e, "it exists");
}

static bool run_write(struct run *r)
{
    uint32_t len, records = 0, takes;
    if (!script_next_number(r->e, r->w, &len)) {
        return false;
    }
    takes = len;
    while (r->w->at < r->w->count) {
        uint32_t *into = script_word_take(r->w, "records") ? &records
                         : script_word_take(r->w, "takes") ? &takes
                                                           : NULL;
        if (into == NULL || !script_next_number(r->e, r->w, into)) {
            return script_fail(r->e, "write has 'records N' and 'takes N'");
        }
    }
    size_t taken = r->c->exists ? script_host_write(r->h, r->c, len, records) : 0;
    return taken == takes || script_fail(r->e, "%zu octets were taken", taken);
}

static bool run_stall(struct run *r)
{
    r->c->read_max = r->c->handed;
    return true;
}

static bool run_read(struct run *r)
{
    uint32_t len;
    if (script_word_take(r->w, "all")) {
        script_host_read(r->h, r->c, UINT64_MAX);
        return true;
    }
    if (!script_next_number(r->e, r->w, &len)) {
        return false;
    }
    script_host_read(r->h, r->c, r->c->handed + len);
    return true;
}

static bool need_connection(struct run *r)
{
    return r->c->exists || script_fail(r->e, "there is no connection");
}

static bool run_window(struct run *r)
{
    uint32_t len;
    if (!script_next_number(r->e, r->w, &len) || !need_connection(r)) {
        return false;
    }
    tcp_set_window(r->c->connection.tcb, len);
    net_touch(r->h->host, &r->c->connection);
    script_host_look(r->h);
    return true;
}

static bool run_close(struct run *r)
{
    if (!need_connection(r)) {
        return false;
    }
    tcp_close(r->c->connection.tcb, r->h->now_ns);
    net_touch(r->h->host, &r->c->connection);
    script_host_look(r->h);
    return true;
}

static bool run_abort(struct run *r)
{
    if (!need_connection(r)) {
        return false;
    }
    tcp_abort(r->c->connection.tcb);
    net_touch(r->h->host, &r->c->connection);
    script_host_look(r->h);
    return true;
}

static bool run_doubt(struct run *r)
{
    if (!need_connection(r)) {
        return false;
    }
    tcp_doubt(r->c->connection.tcb, r->h->now_ns);
    net_touch(r->h->host, &r->c->connection);
    script_host_look(r->h);
    return true;
}

static bool run_block(struct run *r)
{
    r->h->has_room = false;
    return true;
}

static bool run_unblock(struct run *r)
{
    r->h->has_room = true;
    net_unblock_all(r->h->host);
    script_host_look(r->h);
    return true;
}

static bool run_refuse(struct run *r)
{
    r->h->takes_incoming = false;
    return true;
}

// Another incarnation: what was learned of the last one is forgotten.
static bool run_renew(struct run *r)
{
    r->c->has_iss = r->c->has_timestamps = false;
    r->c->iss = 0;
    return !script_word_take(r->w, "peer_isn") || script_next_number(r->e, r->w, &r->c->irs);
}

static bool run_port(struct run *r)
{
    uint32_t port;
    if (!script_next_number(r->e, r->w, &port) || r->c->exists) {
        return script_fail(r->e, "'port N' comes before the connection");
    }
    r->c->flow.local_port = (uint16_t)port;
    return true;
}

static bool run_open(struct run *r);

static const struct {
    const char *name;
    bool (*run)(struct run *r);
} calls[] = {
    {"listen", run_listen},   {"unlisten", run_unlisten}, {"accept", run_accept},
    {"connect", run_connect}, {"open", run_open},         {"write", run_write},
    {"read", run_read},       {"stall", run_stall},       {"window", run_window},
    {"close", run_close},     {"abort", run_abort},       {"block", run_block},
    {"unblock", run_unblock}, {"refuse", run_refuse},     {"renew", run_renew},
    {"port", run_port},       {"doubt", run_doubt},
};

static bool run_call(struct run *r, const struct due *due)
{
    const char *name = script_word_next(r->w);
    if (!wait_until(r, due->first_ns)) {
        return false;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (name != NULL && strcmp(name, calls[i].name) == 0) {
            return calls[i].run(r);
        }
    }
    return script_fail(r->e, "no call is called '%s'", name == NULL ? "" : name);
}

/* ---- what the program finds ------------------------------------------------------------------ */

static const char *error_name(int status)
{
    return status == 0 ? "0" : strerrorname_np(-status);
}

static bool compare(struct run *r, const char *name, uint64_t is)
{
    static const char *const signs[] = {"<", "<=", ">", ">=", "="};
    unsigned sign = 0;
    uint32_t wanted;
    while (sign < 4 && !script_word_take(r->w, signs[sign])) {
        sign++;
    }
    if (!script_next_number(r->e, r->w, &wanted)) {
        return false;
    }
    const bool holds[] = {is<wanted, is <= wanted, is> wanted, is >= wanted, is == wanted};
    return holds[sign] || script_fail(r->e, "%s is %llu", name, (unsigned long long)is);
}

static bool compare_time(struct run *r, const char *name, duration_ns is)
{
    duration_ns wanted;
    if (!script_duration(r->e, script_word_next(r->w), &wanted)) {
        return false;
    }
    duration_ns off = is > wanted ? is - wanted : wanted - is;
    return off <= r->h->settings.tolerance_ns ||
           script_fail(r->e, "%s is %.6f", name, (double)is / (double)NS_PER_S);
}

struct counter_wanted {
    const char *name;
    uint64_t value;
    bool is_found;
};

static void on_counter(void *ctx, const char *name, uint64_t value)
{
    struct counter_wanted *w = ctx;
    if (strcmp(w->name, name) == 0) {
        w->value = value;
        w->is_found = true;
    }
}

static void each_host_counter(const struct script_host *h, counter_each each, void *ctx)
{
    const struct net_counters *c = net_host_counters(h->host);
#define X(name, text) each(ctx, #name, c->name);
    NET_COUNTERS(X)
#undef X
    const struct net_iface_counters *i = &h->iface.counters;
#define X(name, text) each(ctx, #name, i->name);
    NET_IFACE_COUNTERS(X)
#undef X
}

// "count retransmits 1", "count host.resets 1", "count listener.syns 1"
static bool check_counter(struct run *r, const struct tcp_info *info)
{
    const char *name = script_word_next(r->w);
    struct counter_wanted wanted = {.name = name == NULL ? "" : name};
    if (strncmp(wanted.name, "host.", 5) == 0) {
        wanted.name += 5;
        each_host_counter(r->h, on_counter, &wanted);
    } else if (strncmp(wanted.name, "listener.", 9) == 0 && r->h->is_listening) {
        wanted.name += 9;
        tcp_listen_counters_each(tcp_listener_counters(r->h->listener.tcp), on_counter, &wanted);
    } else if (info->counters != NULL) {
        tcp_counters_each(info->counters, on_counter, &wanted);
    }
    return wanted.is_found ? compare(r, name, wanted.value)
                           : script_fail(r->e, "no counter is called '%s'", wanted.name);
}

static bool check_word(struct run *r, const char *name, const char *is)
{
    const char *wanted = script_word_next(r->w);
    return (wanted != NULL && strcmp(wanted, is) == 0) || script_fail(r->e, "%s is %s", name, is);
}

static bool check_number(struct run *r, const char *name, const struct tcp_info *info)
{
    const struct script_connection *c = r->c;
    uint64_t acked = c->exists ? tcp_acked_position(c->connection.tcb) : 0;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"received", c->handed},
        {"fin", c->has_fin},
        {"acked", acked},
        {"cwnd", info->cwnd},
        {"ssthresh", info->ssthresh},
        {"pipe", info->pipe_len},
        {"flight", info->flight_len},
        {"snd_wnd", info->snd_wnd},
        {"rcv_wnd", info->rcv_wnd},
        {"ranges", info->range_count},
        {"buffered", info->buffered_len},
        {"recovery", info->is_in_recovery},
        {"waiting", r->h->waiting_count},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            return compare(r, name, numbers[i].value);
        }
    }
    return script_fail(r->e, "nothing to be found is called '%s'", name);
}

static bool run_check(struct run *r, const struct due *due)
{
    struct tcp_info info;
    enum tcp_state state;
    const char *name = script_word_next(r->w);
    if (!wait_until(r, due->first_ns)) {
        return false;
    }
    script_connection_info(r->c, &info, &state);
    if (name == NULL) {
        return script_fail(r->e, "what is to be found?");
    }
    if (strcmp(name, "state") == 0) {
        return check_word(r, name, r->c->was_there ? tcp_state_name(state) : "NONE");
    }
    if (strcmp(name, "error") == 0) {
        return check_word(r, name, r->c->exists ? "none" : error_name(r->c->status));
    }
    if (strcmp(name, "srtt") == 0) {
        return compare_time(r, name, info.srtt_ns);
    }
    if (strcmp(name, "rttvar") == 0) {
        return compare_time(r, name, info.rttvar_ns);
    }
    if (strcmp(name, "rto") == 0) {
        return compare_time(r, name, info.rto_ns);
    }
    return strcmp(name, "count") == 0 ? check_counter(r, &info) : check_number(r, name, &info);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool begin(struct run *r)
{
    if (!r->has_begun) {
        r->has_begun = true;
        if (!script_host_init(r->h)) {
            return script_fail(r->e, "no memory");
        }
        r->at_ns = r->h->began_ns;
    }
    return true;
}

static bool run_timed(struct run *r)
{
    struct due due;
    uint32_t index = 1;
    char *time = script_word_next(r->w);
    if (!begin(r) || !due_read(r, time, &due)) {
        return false;
    }
    if (r->w->at < r->w->count && r->w->word[r->w->at][0] == '@') {
        if (!script_number(r->e, script_word_next(r->w) + 1, &index) ||
            index > SCRIPT_CONNECTIONS_MAX) {
            return script_fail(r->e, "connections are @1 to @%u", SCRIPT_CONNECTIONS_MAX);
        }
    }
    r->c = &r->h->connection[index];
    bool is_held = script_word_take(r->w, "held");
    bool is_in = script_word_take(r->w, "<");
    if (is_held && !is_in) {
        return script_fail(r->e, "what is held comes in: 'held < SEGMENT'");
    }
    return is_in                         ? run_in(r, &due, is_held)
           : script_word_take(r->w, ">") ? run_out(r, &due)
           : script_word_take(r->w, "?") ? run_check(r, &due)
                                         : run_call(r, &due);
}

static bool run_line(struct run *r, char *line)
{
    struct script_words words, *before = r->w;
    if (!script_words_cut(r->e, line, &words)) {
        return false;
    }
    if (words.count == 0) {
        return true;
    }
    r->w = &words;
    bool is_good = script_word_take(&words, "set") ? run_setting(r) : run_timed(r);
    if (is_good && words.at < words.count) {
        is_good = script_fail(r->e, "'%s' is one word too many", words.word[words.at]);
    }
    if (is_good && r->c != NULL && r->c->is_wrong) {
        is_good = script_fail(r->e, "octets were handed up that the peer did not send there");
    }
    r->w = before;
    return is_good;
}

/* ---- open ------------------------------------------------------------------------------------ */

struct opening {
    bool is_passive;
    uint32_t mss, window, scale;
    bool has_scale, has_sack, has_timestamps, has_ecn;
    duration_ns rtt_ns;
};

static bool opening_read(struct run *r, struct opening *ret)
{
    *ret = (struct opening){.mss = 1000, .window = UINT16_MAX, .rtt_ns = 10 * NS_PER_MS};
    while (r->w->at < r->w->count) {
        bool is_good = true;
        if (script_word_take(r->w, "passive")) {
            ret->is_passive = true;
        } else if (script_word_take(r->w, "sack")) {
            ret->has_sack = true;
        } else if (script_word_take(r->w, "ts")) {
            ret->has_timestamps = true;
        } else if (script_word_take(r->w, "ecn")) {
            ret->has_ecn = true;
        } else if (script_word_take(r->w, "mss")) {
            is_good = script_next_number(r->e, r->w, &ret->mss);
        } else if (script_word_take(r->w, "win")) {
            is_good = script_next_number(r->e, r->w, &ret->window);
        } else if (script_word_take(r->w, "wscale")) {
            is_good = ret->has_scale = script_next_number(r->e, r->w, &ret->scale);
        } else if (script_word_take(r->w, "rtt")) {
            is_good = script_duration(r->e, script_word_next(r->w), &ret->rtt_ns);
        } else {
            is_good =
                script_fail(r->e, "open has 'passive', 'ecn', 'sack', 'ts', 'mss N', 'win N', "
                                  "'wscale N' and 'rtt TIME'");
        }
        if (!is_good) {
            return false;
        }
    }
    return true;
}

static bool run_text(struct run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool run_text(struct run *r, const char *format, ...)
{
    char line[SCRIPT_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return run_line(r, line);
}

// A handshake, as lines. The peer's timestamps begin at 100, and its second one is 110.
static bool run_open(struct run *r)
{
    struct opening o;
    char options[128], ts[64] = "";
    unsigned at = (unsigned)(r->c - r->h->connection), rtt_us;
    if (!opening_read(r, &o)) {
        return false;
    }
    rtt_us = (unsigned)(o.rtt_ns / NS_PER_US);
    size_t len = (size_t)snprintf(options, sizeof options, "mss %u", o.mss);
    len += (size_t)snprintf(options + len, sizeof options - len, "%s", o.has_sack ? ",sackOK" : "");
    if (o.has_scale) {
        len += (size_t)snprintf(options + len, sizeof options - len, ",nop,wscale %u", o.scale);
    }
    if (o.has_timestamps) {
        unsigned now_ms = (unsigned)((r->at_ns - r->h->began_ns) / NS_PER_MS);
        snprintf(options + len, sizeof options - len, ",nop,nop,TS val 100 ecr %u",
                 o.is_passive ? 0 : now_ms);
        snprintf(ts, sizeof ts, "<nop,nop,TS val 110 ecr %u>", now_ms);
    }
    if (!o.is_passive) {
        return run_text(r, "+0 @%u connect", at) &&
               run_text(r, "+0 @%u > S%s 0:0(0) <...>", at, o.has_ecn ? "EW" : "") &&
               run_text(r, "+%uus @%u < S%s. 0:0(0) ack 1 win %u <%s>", rtt_us, at,
                        o.has_ecn ? "E" : "", o.window, options) &&
               run_text(r, "+0 @%u > . 1:1(0) ack 1 <...>", at) &&
               run_text(r, "+0 @%u ? state ESTABLISHED", at);
    }
    return (r->h->is_listening || run_text(r, "+0 listen")) &&
           run_text(r, "+0 @%u < S%s 0:0(0) win %u <%s>", at, o.has_ecn ? "EW" : "", o.window,
                    options) &&
           run_text(r, "+0 @%u > S%s. 0:0(0) ack 1 <...>", at, o.has_ecn ? "E" : "") &&
           run_text(r, "+%uus @%u < . 1:1(0) ack 1 win %u %s", rtt_us, at, o.window, ts) &&
           run_text(r, "+0 @%u accept", at) && run_text(r, "+0 @%u ? state ESTABLISHED", at);
}

/* ---- the script ------------------------------------------------------------------------------ */

bool script_run(struct script_error *e, char *text)
{
    struct script_host *h = calloc(1, sizeof *h);
    struct run r = {.e = e, .h = h};
    bool is_good = h != NULL;
    CHECK(h != NULL);
    script_settings_init(&h->settings);
    for (char *line = text, *next; is_good && line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        e->line++;
        is_good = run_line(&r, line);
    }
    is_good = is_good && r.has_begun && expect_nothing(&r);
    script_host_fini(h);
    free(h);
    return is_good || script_fail(e, "an empty script");
}
