#include "tcp/listen.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/serial.h"
#include "base/siphash.h"
#include "base/span.h"
#include "tcp/acceptable.h"
#include "tcp/agree.h"
#include "tcp/ecn.h"
#include "tcp/rtt.h"
#include "tcp/seq.h"
#include "wire/tcp.h"

enum { RETRIES_MAX = 15 };

// A SYN that was answered: about 120 octets, and all that a peer who never comes back can take.
struct half_open {
    struct list_link by_age;  // `free`, or the list of those with as many retries, earliest first
    struct list_link by_hash; // `bucket`
    struct tcp_tuple tuple;
    struct tcp_header syn; // theirs
    uint32_t iss;
    uint32_t timestamp_offset;
    uint16_t mss;           // ours
    uint8_t ecn_flags;      // of our SYN,ACK
    instant_ns answered_at; // the first time
    instant_ns deadline;
    unsigned retries;
    struct tcp_challenges challenges;
};

struct tcp_listener {
    struct tcp_listener_config config;
    struct half_open *pool;
    struct list_link *bucket;
    size_t bucket_mask;
    struct list_link free;
    struct list_link by_retries[RETRIES_MAX + 1];
    struct tcp_listen_counters counters;
};

/* ---- life ------------------------------------------------------------------------------------ */

struct tcp_listener *tcp_listener_create(const struct tcp_listener_config *config)
{
    CHECK(config->half_open_max > 0);
    CHECK(config->syn_ack_retries <= RETRIES_MAX);
    struct tcp_listener *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    size_t buckets = 1;
    while (buckets < config->half_open_max) {
        buckets *= 2;
    }
    *l = (struct tcp_listener){
        .config = *config,
        .pool = calloc(config->half_open_max, sizeof l->pool[0]),
        .bucket = calloc(buckets, sizeof l->bucket[0]),
        .bucket_mask = buckets - 1,
    };
    if (l->pool == NULL || l->bucket == NULL) {
        tcp_listener_destroy(l);
        return NULL;
    }
    list_init(&l->free);
    for (unsigned i = 0; i <= RETRIES_MAX; i++) {
        list_init(&l->by_retries[i]);
    }
    for (size_t i = 0; i < buckets; i++) {
        list_init(&l->bucket[i]);
    }
    for (unsigned i = 0; i < config->half_open_max; i++) {
        list_init(&l->pool[i].by_hash);
        list_push_tail(&l->free, &l->pool[i].by_age);
    }
    return l;
}

void tcp_listener_destroy(struct tcp_listener *l)
{
    if (l != NULL) {
        free(l->pool);
        free(l->bucket);
        free(l);
    }
}

/* ---- the queue ------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct tcp_listener *l, const struct tcp_tuple *tuple)
{
    return siphash(l->config.secret, span_of(tuple->octets, sizeof tuple->octets));
}

static struct half_open *of_age(struct list_link *link)
{
    return LIST_ENTRY(link, struct half_open, by_age);
}

static struct half_open *find(const struct tcp_listener *l, const struct tcp_tuple *tuple,
                              uint64_t hash)
{
    struct list_link *head = &l->bucket[hash & l->bucket_mask];
    for (struct list_link *link = head->next; link != head; link = link->next) {
        struct half_open *h = LIST_ENTRY(link, struct half_open, by_hash);
        if (memcmp(h->tuple.octets, tuple->octets, sizeof tuple->octets) == 0) {
            return h;
        }
    }
    return NULL;
}

static void let_go(struct tcp_listener *l, struct half_open *h)
{
    list_remove(&h->by_hash);
    list_remove(&h->by_age);
    list_push_head(&l->free, &h->by_age);
}

// The one that has been silent for longest: it had the most chances.
static struct half_open *oldest(struct tcp_listener *l)
{
    for (unsigned i = RETRIES_MAX + 1; i-- > 0;) {
        if (!list_is_empty(&l->by_retries[i])) {
            return of_age(l->by_retries[i].next);
        }
    }
    return NULL;
}

static struct half_open *take_entry(struct tcp_listener *l)
{
    if (list_is_empty(&l->free)) {
        l->counters.evicted++;
        let_go(l, oldest(l));
    }
    return of_age(list_pop_head(&l->free));
}

static void set_deadline(struct tcp_listener *l, struct half_open *h, instant_ns now)
{
    h->deadline = now + (TCP_RTO_INITIAL_NS << h->retries);
    list_remove(&h->by_age);
    list_push_tail(&l->by_retries[h->retries], &h->by_age);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static struct tcp_header syn_ack(const struct tcp_listener *l, const struct half_open *h,
                                 instant_ns now)
{
    struct tcp_header reply = {
        .src_port = h->syn.dst_port,
        .dst_port = h->syn.src_port,
        .seq = h->iss,
        .ack = h->syn.seq + 1,
        .flags = TCP_SYN | TCP_ACK | h->ecn_flags,
        .window = tcp_syn_window(&l->config.connection),
        .options = tcp_syn_options(&l->config.connection, &h->syn.options),
    };
    reply.options.mss = h->mss;
    reply.options.ts_value = (uint32_t)(now / NS_PER_MS) + h->timestamp_offset;
    reply.options.ts_echo = h->syn.options.ts_value;
    return reply;
}

static void say(struct tcp_listen_answer *ret, const struct tcp_header *reply)
{
    ret->has_reply = true;
    ret->reply = *reply;
}

static void refuse(struct tcp_listener *l, enum tcp_listen_refusal refusal,
                   struct tcp_listen_answer *ret)
{
    l->counters.refusals[refusal]++;
    ret->refusal = refusal;
}

static void refuse_with_reset(struct tcp_listener *l, enum tcp_listen_refusal refusal,
                              const struct tcp_segment *segment, struct tcp_listen_answer *ret)
{
    refuse(l, refusal, ret);
    ret->has_reply = tcp_reset_for(segment, &ret->reply);
}

static uint16_t path_mss(const struct tcp_listener *l, const struct tcp_tuple *tuple)
{
    const struct tcp_listener_config *c = &l->config;
    return c->path_mss != NULL ? c->path_mss(c->path_ctx, tuple) : c->connection.mss;
}

// RFC 9293 section 3.10.7.2, third: a half-open connection.
static void on_syn(struct tcp_listener *l, const struct tcp_tuple *tuple, uint64_t hash,
                   const struct tcp_segment *segment, instant_ns now, struct tcp_listen_answer *ret)
{
    struct half_open *h = take_entry(l);
    h->tuple = *tuple;
    h->syn = segment->header;
    h->iss = tcp_isn(l->config.secret, tuple, now);
    h->mss = path_mss(l, tuple);
    h->ecn_flags = tcp_ecn_syn_ack_flags(&l->config.connection, h->syn.flags);
    h->timestamp_offset = (uint32_t)(hash >> 32); // the half that the ISN does not show
    h->answered_at = now;
    h->retries = 0;
    h->challenges = (struct tcp_challenges){0};
    list_push_tail(&l->bucket[hash & l->bucket_mask], &h->by_hash);
    set_deadline(l, h, now);
    l->counters.syns++;
    struct tcp_header reply = syn_ack(l, h, now);
    say(ret, &reply);
}

static void complete(struct tcp_listener *l, struct half_open *h, const struct tcp_segment *segment,
                     instant_ns now, struct tcp_listen_answer *ret)
{
    const struct tcp_options *o = &segment->header.options;
    struct tcp_agreed agreed = tcp_agree(&l->config.connection, &h->syn.options);
    ret->has_handshake = true;
    ret->handshake = (struct tcp_handshake){
        .remote_port = h->syn.src_port,
        .iss = h->iss,
        .irs = h->syn.seq,
        .peer = h->syn.options,
        .snd_wnd = (uint32_t)segment->header.window << agreed.snd_scale,
        .timestamp_offset = h->timestamp_offset,
        .ts_recent = o->has_timestamps ? o->ts_value : h->syn.options.ts_value,
        .rtt_ns = h->retries == 0 ? now - h->answered_at + 1 : 0,
        .has_ecn = tcp_ecn_is_syn_ack(h->ecn_flags),
    };
    l->counters.completed++;
    let_go(l, h);
}

// RFC 5961: where we are, to who said something doubtful; a few times in a second.
static void challenge(struct tcp_listener *l, struct half_open *h, instant_ns now,
                      struct tcp_listen_answer *ret)
{
    const struct tcp_config *c = &l->config.connection;
    struct tcp_agreed agreed = tcp_agree(c, &h->syn.options);
    if (!tcp_challenges_take(&h->challenges, c->challenge_max, now)) {
        l->counters.challenges_suppressed++;
        return;
    }
    l->counters.challenge_acks++;
    struct tcp_header reply = {
        .src_port = h->syn.dst_port,
        .dst_port = h->syn.src_port,
        .seq = h->iss + 1,
        .ack = h->syn.seq + 1,
        .flags = TCP_ACK,
        .window = (uint16_t)(tcp_syn_window(c) >> agreed.rcv_scale), // what the SYN,ACK offered
        .options = {.has_timestamps = agreed.timestamps,
                    .ts_value = (uint32_t)(now / NS_PER_MS) + h->timestamp_offset,
                    .ts_echo = h->syn.options.ts_value},
    };
    say(ret, &reply);
}

// RFC 7323 section 5 and RFC 9293 section 3.10.7.4, first step.
static enum tcp_listen_refusal check_acceptable(const struct tcp_listener *l,
                                                const struct half_open *h,
                                                const struct tcp_segment *segment)
{
    const struct tcp_header *s = &segment->header;
    tcp_seq nxt = tcp_seq_first(h->syn.seq) + 1, seq = tcp_seq_near(nxt, s->seq);
    uint64_t len = segment->payload.len + ((s->flags & TCP_SYN) != 0) + ((s->flags & TCP_FIN) != 0);
    if (tcp_agree(&l->config.connection, &h->syn.options).timestamps && (s->flags & TCP_RST) == 0) {
        if (!s->options.has_timestamps) {
            return TCP_LISTEN_REFUSED_NO_TIMESTAMP;
        }
        if (serial_before(s->options.ts_value, h->syn.options.ts_value)) {
            return TCP_LISTEN_REFUSED_OLD_TIMESTAMP;
        }
    }
    return tcp_segment_is_acceptable(seq, len, nxt, nxt + tcp_syn_window(&l->config.connection))
               ? TCP_LISTEN_TAKEN
               : TCP_LISTEN_REFUSED_NOT_ACCEPTABLE;
}

// RFC 5961 section 3.2.
static void on_half_open_rst(struct tcp_listener *l, struct half_open *h,
                             const struct tcp_segment *segment, instant_ns now,
                             struct tcp_listen_answer *ret)
{
    if (segment->header.seq == h->syn.seq + 1) {
        refuse(l, TCP_LISTEN_REFUSED_PEER_RESET, ret);
        let_go(l, h);
    } else {
        refuse(l, TCP_LISTEN_REFUSED_BAD_RST, ret);
        challenge(l, h, now, ret);
    }
}

// The SYN again: the SYN,ACK was lost.
static void on_syn_again(struct tcp_listener *l, struct half_open *h, const struct tcp_header *syn,
                         instant_ns now, struct tcp_listen_answer *ret)
{
    const struct tcp_options *options = &syn->options;
    h->ecn_flags &= tcp_ecn_syn_ack_flags(&l->config.connection, syn->flags); // RFC 3168 6.1.1
    if (!serial_before(options->ts_value, h->syn.options.ts_value)) { // RFC 7323 section 4.3
        h->syn.options.ts_value = options->ts_value;
    }
    struct tcp_header reply = syn_ack(l, h, now);
    l->counters.resent++;
    h->retries += h->retries == 0; // which of the two will be answered is not to be told
    set_deadline(l, h, now);
    say(ret, &reply);
}

// A segment of a handshake under way: the state SYN-RECEIVED of section 3.10.7.4.
static void on_half_open(struct tcp_listener *l, struct half_open *h,
                         const struct tcp_segment *segment, instant_ns now,
                         struct tcp_listen_answer *ret)
{
    const struct tcp_header *s = &segment->header;
    if ((s->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN && s->seq == h->syn.seq) {
        on_syn_again(l, h, s, now, ret);
        return;
    }
    enum tcp_listen_refusal refusal = check_acceptable(l, h, segment);
    if (refusal != TCP_LISTEN_TAKEN) {
        refuse(l, refusal, ret);
        if ((s->flags & TCP_RST) == 0 && refusal != TCP_LISTEN_REFUSED_NO_TIMESTAMP) {
            challenge(l, h, now, ret);
        }
    } else if ((s->flags & TCP_RST) != 0) {
        on_half_open_rst(l, h, segment, now, ret);
    } else if ((s->flags & TCP_SYN) != 0) { // not believed, as in a connection (RFC 5961 section 4)
        refuse(l, TCP_LISTEN_REFUSED_BAD_SYN, ret);
        challenge(l, h, now, ret);
    } else if ((s->flags & TCP_ACK) == 0) {
        refuse(l, TCP_LISTEN_REFUSED_BAD_ACK, ret);
    } else if (s->ack != h->iss + 1) {
        refuse_with_reset(l, TCP_LISTEN_REFUSED_BAD_ACK, segment, ret);
    } else {
        complete(l, h, segment, now, ret);
    }
}

void tcp_listener_on_segment(struct tcp_listener *l, const struct tcp_tuple *tuple,
                             const struct tcp_segment *segment, instant_ns now,
                             struct tcp_listen_answer *ret)
{
    uint8_t flags = segment->header.flags;
    uint64_t hash = hash_of(l, tuple);
    struct half_open *h = find(l, tuple, hash);
    *ret = (struct tcp_listen_answer){.refusal = TCP_LISTEN_TAKEN};
    if (h != NULL) {
        on_half_open(l, h, segment, now, ret);
    } else if ((flags & TCP_RST) != 0 || (flags & (TCP_SYN | TCP_FIN)) == (TCP_SYN | TCP_FIN)) {
        refuse(l, TCP_LISTEN_REFUSED_RST, ret);
    } else if ((flags & TCP_ACK) != 0) {
        refuse_with_reset(l, TCP_LISTEN_REFUSED_BAD_ACK, segment, ret);
    } else if ((flags & TCP_SYN) == 0) {
        refuse(l, TCP_LISTEN_REFUSED_NO_SYN, ret);
    } else {
        on_syn(l, tuple, hash, segment, now, ret);
    }
}

void tcp_listener_reopen(struct tcp_listener *l, const struct tcp_tuple *tuple,
                         const struct tcp_segment *segment, uint32_t unused, instant_ns now,
                         struct tcp_listen_answer *ret)
{
    tcp_listener_on_segment(l, tuple, segment, now, ret);
    struct half_open *h = find(l, tuple, hash_of(l, tuple));
    if (h != NULL && serial_before(h->iss, unused)) {
        h->iss = ret->reply.seq = unused;
    }
}

bool tcp_listener_expects(const struct tcp_listener *l, const struct tcp_tuple *tuple,
                          const struct tcp_segment *segment)
{
    const struct half_open *h = find(l, tuple, hash_of(l, tuple));
    const struct tcp_header *s = &segment->header;
    if (h == NULL || (s->flags & TCP_SYN) != 0) {
        return h != NULL && (s->flags & TCP_ACK) == 0 && s->seq == h->syn.seq;
    }
    bool is_its_end = (s->flags & TCP_RST) != 0 || s->ack == h->iss + 1;
    return s->seq == h->syn.seq + 1 && is_its_end;
}

/* ---- time ------------------------------------------------------------------------------------ */

// The entry whose deadline is the earliest: the first of one of the lists.
static struct half_open *next_due(const struct tcp_listener *l)
{
    struct half_open *next = NULL;
    for (unsigned i = 0; i <= RETRIES_MAX; i++) {
        if (!list_is_empty(&l->by_retries[i])) {
            struct half_open *h = of_age(l->by_retries[i].next);
            next = next == NULL || h->deadline < next->deadline ? h : next;
        }
    }
    return next;
}

instant_ns tcp_listener_next_deadline(const struct tcp_listener *l)
{
    const struct half_open *next = next_due(l);
    return next != NULL ? next->deadline : INSTANT_NEVER;
}

bool tcp_listener_on_deadline(struct tcp_listener *l, instant_ns now, struct tcp_tuple *ret_tuple,
                              struct tcp_header *ret_reply)
{
    struct half_open *h;
    while ((h = next_due(l)) != NULL && h->deadline <= now) {
        if (h->retries >= l->config.syn_ack_retries) {
            l->counters.expired++;
            let_go(l, h);
            continue;
        }
        h->retries++;
        set_deadline(l, h, now);
        if (l->config.answers_once) {
            continue;
        }
        l->counters.resent++;
        *ret_tuple = h->tuple;
        *ret_reply = syn_ack(l, h, now);
        return true;
    }
    return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

const struct tcp_listen_counters *tcp_listener_counters(const struct tcp_listener *l)
{
    return &l->counters;
}

const char *tcp_listen_refusal_name(enum tcp_listen_refusal refusal)
{
    static const char *const names[TCP_LISTEN_REFUSAL_COUNT] = {[TCP_LISTEN_TAKEN] = "taken",
#define X(name, text) [TCP_LISTEN_REFUSED_##name] = #name,
                                                                TCP_LISTEN_REFUSALS(X)
#undef X
    };
    return refusal < TCP_LISTEN_REFUSAL_COUNT ? names[refusal] : "?";
}

void tcp_listener_check(const struct tcp_listener *l)
{
    unsigned count = 0;
    for (const struct list_link *k = l->free.next; k != &l->free; k = k->next) {
        count++;
    }
    for (unsigned i = 0; i <= RETRIES_MAX; i++) {
        instant_ns before = 0;
        const struct list_link *head = &l->by_retries[i];
        for (struct list_link *k = head->next; k != head; k = k->next) {
            const struct half_open *h = of_age(k);
            CHECK(h->retries == i);
            CHECK(h->deadline >= before);
            CHECK(find(l, &h->tuple, hash_of(l, &h->tuple)) == h);
            before = h->deadline;
            count++;
        }
    }
    CHECK(count == l->config.half_open_max);
}
