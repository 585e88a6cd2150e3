#include "tcp/scoreboard.h"

#include "base/check.h"
#include "wire/tcp.h"

void tcp_scoreboard_init(struct tcp_scoreboard *sb, unsigned max, struct carve *memory)
{
    *sb = (struct tcp_scoreboard){
        .order = carve(memory, max, sizeof sb->order[0]),
        .pool = carve(memory, max, sizeof sb->pool[0]),
        .max = max,
    };
    list_init(&sb->free);
    list_init(&sb->sent);
    list_init(&sb->lost);
}

/* ---- the order ------------------------------------------------------------------------------- */

static uint16_t *place_of(const struct tcp_scoreboard *sb, unsigned index)
{
    unsigned at = sb->first + index;
    return &sb->order[at < sb->max ? at : at - sb->max];
}

static struct tcp_sent *record_at(const struct tcp_scoreboard *sb, unsigned index)
{
    return &sb->pool[*place_of(sb, index)];
}

// The first record that ends behind `seq`.
static unsigned find(const struct tcp_scoreboard *sb, tcp_seq seq)
{
    unsigned low = 0, high = sb->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (record_at(sb, middle)->end <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Whichever side is shorter moves.
static void order_remove(struct tcp_scoreboard *sb, unsigned index)
{
    if (index < sb->count / 2) {
        for (unsigned i = index; i > 0; i--) {
            *place_of(sb, i) = *place_of(sb, i - 1);
        }
        sb->first = sb->first + 1 < sb->max ? sb->first + 1 : 0;
    } else {
        for (unsigned i = index; i + 1 < sb->count; i++) {
            *place_of(sb, i) = *place_of(sb, i + 1);
        }
    }
    sb->count--;
}

static void remove_record(struct tcp_scoreboard *sb, unsigned index)
{
    struct tcp_sent *sent = record_at(sb, index);
    order_remove(sb, index);
    list_remove(&sent->link);
    list_push_head(&sb->free, &sent->link);
    sb->first = sb->count > 0 ? sb->first : 0; // what little is sent stays in few pages
}

static struct tcp_sent *take_record(struct tcp_scoreboard *sb)
{
    struct list_link *link = list_pop_head(&sb->free);
    CHECK(link != NULL || sb->used < sb->max);
    return link != NULL ? LIST_ENTRY(link, struct tcp_sent, link) : &sb->pool[sb->used++];
}

struct tcp_sent *tcp_scoreboard_at(const struct tcp_scoreboard *sb, unsigned index)
{
    return index < sb->count ? record_at(sb, index) : NULL;
}

struct tcp_sent *tcp_scoreboard_last(const struct tcp_scoreboard *sb)
{
    return sb->count > 0 ? record_at(sb, sb->count - 1) : NULL;
}

struct tcp_sent *tcp_scoreboard_first_lost(const struct tcp_scoreboard *sb)
{
    return list_is_empty(&sb->lost) ? NULL : LIST_ENTRY(sb->lost.next, struct tcp_sent, link);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static uint32_t sent_len(const struct tcp_sent *sent)
{
    return (uint32_t)(sent->end - sent->seq);
}

// Takes a record out of what its condition counts it in, or (with `sign` 1) puts it in.
static void count_condition(struct tcp_scoreboard *sb, const struct tcp_sent *sent, uint32_t sign)
{
    if (sent->condition == TCP_SENT_SACKED) {
        sb->sacked_len += sign * sent_len(sent);
        sb->sacked_segments += sign * sent->segments;
    } else if (sent->condition == TCP_SENT_LOST) {
        sb->lost_len += sign * sent_len(sent);
    }
}

static const uint32_t plus = 1, minus = UINT32_MAX; // modulo 2^32

// Into the list of the lost, by sequence number: what holds up the peer's delivery goes first. They
// are found mostly in that order, or before all others.
static void insert_lost(struct tcp_scoreboard *sb, struct tcp_sent *sent)
{
    struct list_link *before = &sb->lost; // the link that it will precede
    const struct tcp_sent *first = tcp_scoreboard_first_lost(sb);
    if (first != NULL && sent->seq < first->seq) {
        list_push_head(&sb->lost, &sent->link);
        return;
    }
    while (before->prev != &sb->lost &&
           LIST_ENTRY(before->prev, struct tcp_sent, link)->seq > sent->seq) {
        before = before->prev;
    }
    list_push_tail(before, &sent->link);
}

// Into the list of what is in the network, by the order of transmission: what was just sent again
// goes last, and so does most of what was taken for lost, but for what was sent again since.
static void insert_sent(struct tcp_scoreboard *sb, struct tcp_sent *sent)
{
    struct list_link *before = &sb->sent; // the link that it will precede
    while (before->prev != &sb->sent &&
           LIST_ENTRY(before->prev, struct tcp_sent, link)->number > sent->number) {
        before = before->prev;
    }
    list_push_tail(before, &sent->link);
}

static void set_condition(struct tcp_scoreboard *sb, struct tcp_sent *sent,
                          enum tcp_sent_condition condition)
{
    count_condition(sb, sent, minus);
    sent->condition = (uint8_t)condition;
    count_condition(sb, sent, plus);
    list_remove(&sent->link);
    if (condition == TCP_SENT_IN_NETWORK) {
        insert_sent(sb, sent);
    } else if (condition == TCP_SENT_LOST) {
        insert_lost(sb, sent);
    }
}

void tcp_scoreboard_on_sent(struct tcp_scoreboard *sb, tcp_seq seq, tcp_seq end, uint8_t flags,
                            instant_ns now, uint32_t ts_value)
{
    struct tcp_sent *sent = take_record(sb);
    *sent = (struct tcp_sent){.seq = seq,
                              .end = end,
                              .sent_at = now,
                              .number = ++sb->transmissions,
                              .ts_value = ts_value,
                              .segments = 1,
                              .has_psh = (flags & (TCP_PSH | TCP_FIN)) != 0, // a FIN pushes
                              .has_fin = (flags & TCP_FIN) != 0};
    list_push_tail(&sb->sent, &sent->link);
    *place_of(sb, sb->count++) = (uint16_t)(sent - sb->pool);
    sb->flight_len += sent_len(sent);
}

void tcp_scoreboard_on_resent(struct tcp_scoreboard *sb, struct tcp_sent *sent, instant_ns now,
                              uint32_t ts_value)
{
    sent->sent_at = now;
    sent->number = ++sb->transmissions;
    sent->ts_value = ts_value;
    sent->was_retransmitted = true;
    set_condition(sb, sent, TCP_SENT_IN_NETWORK);
}

void tcp_scoreboard_mark_lost(struct tcp_scoreboard *sb, struct tcp_sent *sent)
{
    CHECK(sent->condition == TCP_SENT_IN_NETWORK);
    set_condition(sb, sent, TCP_SENT_LOST);
}

void tcp_scoreboard_unmark_lost(struct tcp_scoreboard *sb)
{
    struct tcp_sent *sent;
    while ((sent = tcp_scoreboard_first_lost(sb)) != NULL) {
        set_condition(sb, sent, TCP_SENT_IN_NETWORK);
    }
}

void tcp_scoreboard_split(struct tcp_scoreboard *sb, struct tcp_sent *sent, tcp_seq seq)
{
    unsigned index = find(sb, sent->seq);
    CHECK(sent->condition != TCP_SENT_SACKED);
    CHECK(sent->seq < seq && seq < sent->end);
    struct tcp_sent *rest = take_record(sb);
    *rest = *sent;
    rest->seq = seq;
    rest->segments = sent->segments > 1 ? (uint16_t)(sent->segments - 1) : 1;
    list_push_head(&sent->link, &rest->link); // behind it
    sent->end = seq;
    sent->segments = 1;
    sent->has_psh = sent->has_fin = false;
    sb->count++;
    for (unsigned i = sb->count - 1; i > index + 1; i--) {
        *place_of(sb, i) = *place_of(sb, i - 1);
    }
    *place_of(sb, index + 1) = (uint16_t)(rest - sb->pool);
}

void tcp_scoreboard_forget_sacks(struct tcp_scoreboard *sb)
{
    for (unsigned i = 0; i < sb->count; i++) {
        struct tcp_sent *sent = record_at(sb, i);
        if (sent->condition == TCP_SENT_SACKED) {
            sent->was_retransmitted = true; // of an acknowledgement to come nothing can be told
            set_condition(sb, sent, TCP_SENT_IN_NETWORK);
        }
    }
}

/* ---- acknowledgements ------------------------------------------------------------------------ */

uint32_t tcp_scoreboard_ack(struct tcp_scoreboard *sb, tcp_seq una,
                            const struct tcp_delivery_port *port)
{
    uint32_t delivered = 0;
    while (sb->count > 0 && record_at(sb, 0)->seq < una) {
        struct tcp_sent *sent = record_at(sb, 0);
        bool was_known = sent->condition == TCP_SENT_SACKED;
        uint32_t len = (uint32_t)(tcp_seq_min(una, sent->end) - sent->seq);
        delivered += was_known ? 0 : len;
        sb->flight_len -= len;
        count_condition(sb, sent, minus);
        if (una < sent->end) { // a part of it: the rest stays what it was
            sent->seq = una;
            count_condition(sb, sent, plus);
            break;
        }
        if (!was_known) {
            port->on_delivered(port->ctx, sent);
        }
        remove_record(sb, 0);
    }
    return delivered;
}

// Joins the SACKed record at `index` with a SACKed one before it. Returns whether it did.
static bool join_before(struct tcp_scoreboard *sb, unsigned index)
{
    if (index == 0 || index >= sb->count) {
        return false;
    }
    struct tcp_sent *before = record_at(sb, index - 1), *sent = record_at(sb, index);
    if (before->condition != TCP_SENT_SACKED || sent->condition != TCP_SENT_SACKED) {
        return false;
    }
    before->end = sent->end;
    before->segments = (uint16_t)(before->segments + sent->segments);
    before->has_psh = sent->has_psh;
    before->has_fin = sent->has_fin;
    before->was_retransmitted |= sent->was_retransmitted;
    remove_record(sb, index);
    return true;
}

uint32_t tcp_scoreboard_sack(struct tcp_scoreboard *sb, tcp_seq left, tcp_seq right,
                             const struct tcp_delivery_port *port)
{
    uint32_t delivered = 0;
    unsigned i = find(sb, left);
    i += i < sb->count && record_at(sb, i)->seq < left;
    while (i < sb->count && record_at(sb, i)->end <= right) {
        struct tcp_sent *sent = record_at(sb, i);
        if (sent->condition != TCP_SENT_SACKED) {
            delivered += sent_len(sent);
            port->on_delivered(port->ctx, sent);
            set_condition(sb, sent, TCP_SENT_SACKED);
        }
        if (!join_before(sb, i)) {
            i++;
        }
    }
    join_before(sb, i);
    return delivered;
}

/* ---- invariants ------------------------------------------------------------------------------ */

static unsigned list_len(const struct list_link *head)
{
    unsigned len = 0;
    for (const struct list_link *l = head->next; l != head; l = l->next) {
        len++;
    }
    return len;
}

void tcp_scoreboard_check(const struct tcp_scoreboard *sb)
{
    uint32_t len[3] = {0};
    unsigned count[3] = {0};
    for (unsigned i = 0; i < sb->count; i++) {
        const struct tcp_sent *sent = record_at(sb, i);
        CHECK(sent->seq < sent->end);
        CHECK(i == 0 || record_at(sb, i - 1)->end == sent->seq);
        CHECK(!sent->has_fin || i + 1 == sb->count);
        len[sent->condition] += sent_len(sent);
        count[sent->condition]++;
    }
    CHECK(len[TCP_SENT_SACKED] == sb->sacked_len);
    CHECK(len[TCP_SENT_LOST] == sb->lost_len);
    CHECK(len[TCP_SENT_IN_NETWORK] == tcp_scoreboard_pipe(sb));
    CHECK(count[TCP_SENT_LOST] == list_len(&sb->lost));
    CHECK(count[TCP_SENT_IN_NETWORK] == list_len(&sb->sent));
    CHECK(sb->count + list_len(&sb->free) == sb->used);
    CHECK(sb->used <= sb->max);
}
