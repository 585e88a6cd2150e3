#include "tests/tcp/net.h"

static uint8_t octet(uint64_t position)
{
    return (uint8_t)(position * 197 + (position >> 8) * 31 + (position >> 16));
}

bool net_chance(struct net *net, unsigned per_1024)
{
    return prng_below(&net->prng, 1024) < per_1024;
}

/* ---- packets under way: a heap by time ------------------------------------------------------- */

static bool is_before(const struct net_packet *a, const struct net_packet *b)
{
    return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void push(struct net *net, struct net_packet *p)
{
    unsigned i = net->packet_count++;
    assert_true(net->packet_count < NET_PACKETS_MAX);
    while (i > 0 && is_before(p, net->heap[(i - 1) / 2])) {
        net->heap[i] = net->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    net->heap[i] = p;
}

static struct net_packet *pop(struct net *net)
{
    struct net_packet *top = net->heap[0], *last = net->heap[--net->packet_count];
    unsigned i = 0;
    for (unsigned child; (child = 2 * i + 1) < net->packet_count; i = child) {
        if (child + 1 < net->packet_count && is_before(net->heap[child + 1], net->heap[child])) {
            child++;
        }
        if (!is_before(net->heap[child], last)) {
            break;
        }
        net->heap[i] = net->heap[child];
    }
    net->heap[i] = last;
    return top;
}

static instant_ns behind_the_stop(const struct net_faults *faults, instant_ns at)
{
    const duration_ns left = faults->each_ns == 0 ? 0 : faults->each_ns - at % faults->each_ns;
    return left != 0 && left <= faults->still_ns ? at + left : at;
}

static const uint32_t header_len = 40; // what a segment has besides at the bottleneck

// When a segment of `len` octets that comes to the bottleneck now has left it; INSTANT_NEVER: it is
// lost.
static instant_ns behind_the_queue(struct net *net, unsigned to, uint32_t len)
{
    const uint64_t rate = net->faults.octets_per_s;
    instant_ns *idle_at = &net->idle_at[to];
    if (rate == 0) {
        return net->now;
    }
    *idle_at = *idle_at > net->now ? *idle_at : net->now;
    if ((*idle_at - net->now) * rate / NS_PER_S + len + header_len > net->faults.queue_len) {
        net->overflows++;
        return INSTANT_NEVER;
    }
    return *idle_at += (uint64_t)(len + header_len) * NS_PER_S / rate;
}

static bool is_swallowed(const struct net *net, const struct tcp_header *header, uint32_t len)
{
    const uint32_t most = net->faults.swallowed_beyond;
    return most > 0 && TCP_HEADER_LEN + tcp_options_len(&header->options) + len > most;
}

static void launch(struct net *net, unsigned to, const struct tcp_header *header, enum ip_ecn ecn,
                   const uint8_t *octets, uint32_t len)
{
    bool is_calm = net->now >= net->faults_end;
    if (!is_calm && net_chance(net, net->faults.loss)) {
        return;
    }
    if (is_swallowed(net, header, len)) {
        return;
    }
    const instant_ns leaves_at = behind_the_queue(net, to, len);
    if (leaves_at == INSTANT_NEVER) {
        return;
    }
    unsigned copies = !is_calm && net_chance(net, net->faults.duplicate) ? 2 : 1;
    for (unsigned i = 0; i < copies; i++) {
        struct net_packet *p = malloc(sizeof *p + len);
        bool is_late = !is_calm && net_chance(net, net->faults.late);
        bool is_marked = ecn != IP_ECN_NOT_ECT && !is_calm && net_chance(net, net->faults.mark);
        *p = (struct net_packet){.at = leaves_at + net->delay_ns,
                                 .number = net->packets++,
                                 .to = to,
                                 .header = *header,
                                 .ecn = is_marked ? IP_ECN_CE : ecn,
                                 .len = len,
                                 .octets = (uint8_t *)(p + 1)};
        p->at += is_late ? prng_next(&net->prng) % (net->faults.late_ns + 1) : 0;
        p->at = behind_the_stop(&net->faults, p->at);
        if (len > 0) {
            memcpy(p->octets, octets, len);
        }
        push(net, p);
    }
}

// With TRACE in the environment, every segment in and out.
static void say(const struct net_side *side, const char *what, const struct tcp_header *h,
                uint32_t len, const char *why)
{
    static int is_wanted = -1;
    char line[200];
    if (is_wanted < 0) {
        is_wanted = getenv("TRACE") != NULL;
    }
    if (is_wanted) {
        printf(
            "%llu.%06llu %d %-3s %s len %u (%s)\n", (unsigned long long)(side->net->now / NS_PER_S),
            (unsigned long long)(side->net->now % NS_PER_S / NS_PER_US),
            side == &side->net->side[1], what, tcp_header_format(h, line, sizeof line), len, why);
    }
}

static unsigned on_send(void *ctx, const struct tcp_batch *batch)
{
    struct net_side *side = ctx;
    struct net *net = side->net;
    static uint8_t octets[TCP_BATCH_LEN_MAX];
    uint32_t total = 0;
    unsigned to = side == &net->side[0] ? 1 : 0;
    for (unsigned i = 0; i < batch->iov_count; i++) {
        memcpy(octets + total, batch->iov[i].iov_base, batch->iov[i].iov_len);
        total += (uint32_t)batch->iov[i].iov_len;
    }
    assert_int_equal(total, batch->payload_len);
    for (unsigned i = 0; i < batch->segment_count; i++) {
        struct tcp_header h = batch->header;
        uint32_t at = i * batch->segment_len;
        uint32_t len = total - at < batch->segment_len ? total - at : batch->segment_len;
        h.seq += at;
        if (i + 1 < batch->segment_count) {
            h.flags &= (uint8_t) ~(TCP_FIN | TCP_PSH);
        }
        say(side, "out", &h, len, tcp_reason_name(batch->reason));
        launch(net, to, &h, batch->ecn, octets + at, len);
    }
    return batch->segment_count;
}

/* ---- placing --------------------------------------------------------------------------------- */

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    struct net_side *side = ctx;
    struct net *net = side->net;
    bool is_early = offer->order == PLACE_BEYOND_HOLE;
    if (!is_early) {
        assert_int_equal(offer->position, side->handed);
    }
    if (net_chance(net, side->policy.partial)) {
        answer->len = 1 + prng_below(&net->prng, (uint32_t)offer->octets.len);
    }
    if (offer->order != PLACE_FROM_BUFFER && net_chance(net, side->policy.drop)) {
        return PLACE_DROP;
    }
    if (net_chance(net, is_early ? side->policy.buffer : side->policy.stall)) {
        return PLACE_BUFFER;
    }
    for (size_t i = 0; i < answer->len; i++) {
        assert_int_equal(side->is_placed[offer->position + i], 0);
        assert_int_equal(offer->octets.ptr[i], octet(offer->position + i));
        side->is_placed[offer->position + i] = is_early ? 2 : 1;
    }
    if (is_early) {
        answer->counts.n[prng_below(&net->prng, PLACE_CLASS_COUNT)] = 1;
        side->placed_early++;
    } else {
        side->handed += answer->len;
    }
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    struct net_side *side = ctx;
    assert_int_equal(position, side->handed);
    if (net_chance(side->net, side->policy.refuse_advance)) {
        return false;
    }
    for (uint64_t p = position; p < end; p++) {
        assert_int_equal(side->is_placed[p], 2);
    }
    for (unsigned i = 0; i < PLACE_CLASS_COUNT; i++) {
        side->released += counts->n[i];
    }
    side->handed = end;
    return true;
}

/* ---- the naive receiver ---------------------------------------------------------------------- */

static void naive_receive(struct net_side *side, const struct net_packet *p)
{
    const struct tcp_receive *r = &side->tcb->rcv;
    uint64_t position = tcp_seq_near(r->nxt, p->header.seq) - r->first;
    for (uint32_t i = 0; i < p->len; i++) {
        if (position + i < r->edge - r->first && position + i < NET_STREAM_MAX) {
            side->naive[position + i] = 1;
        }
    }
    while (side->naive_prefix < NET_STREAM_MAX && side->naive[side->naive_prefix] != 0) {
        side->naive_prefix++;
    }
}

// Nothing is handed up before it may be, and, unless something was refused, as soon as it may be.
static void check_against_naive(const struct net_side *side)
{
    const struct net_policy *p = &side->policy;
    const uint64_t *refused = side->tcb->counters.refusals;
    bool keeps_all = p->drop == 0 && p->stall == 0 && p->refuse_advance == 0;
    for (unsigned i = 0; i < TCP_REFUSAL_COUNT; i++) {
        keeps_all &= refused[i] == 0 || i == TCP_REFUSED_DUPLICATE ||
                     i == TCP_REFUSED_NOT_ACCEPTABLE || i == TCP_REFUSED_BAD_SACK;
    }
    assert_true(side->handed <= side->naive_prefix);
    assert_true(!keeps_all || side->handed == side->naive_prefix);
}

/* ---- users ----------------------------------------------------------------------------------- */

static void user_acts(struct net_side *side)
{
    struct net *net = side->net;
    unsigned events = tcp_take_events(side->tcb);
    side->has_fin |= (events & TCP_EVENT_FIN) != 0;
    if ((events & TCP_EVENT_OVER) != 0) {
        side->is_over = true;
        assert_int_equal(tcp_status(side->tcb), 0);
    }
    if (side->tcb->rcv.is_stalled && net_chance(net, 512)) {
        tcp_resume(side->tcb, net->now);
    }
    while (side->sent < side->send_len) {
        uint64_t left = side->send_len - side->sent;
        uint32_t len = side->record_len != 0 ? side->record_len : 1 + prng_below(&net->prng, 20000);
        struct iovec iov = {net->stream + side->sent, left < len ? left : len};
        unsigned flags = (side->record_len != 0 ? TCP_SEND_RECORD : 0) |
                         (side->uses_references ? TCP_SEND_REFERENCE : 0);
        size_t taken = tcp_send(side->tcb, &iov, 1, flags);
        side->sent += taken;
        if (taken == 0) {
            return;
        }
    }
    bool may_close = !side->closes_last || side->has_fin;
    if (!side->has_closed && may_close && tcp_get_state(side->tcb) != TCP_STATE_SYN_SENT) {
        side->has_closed = true;
        tcp_close(side->tcb, net->now);
    }
}

static void flush(struct net_side *side)
{
    const struct tcp_port port = {.send = on_send, .ctx = side};
    if (side->tcb == NULL) {
        return;
    }
    user_acts(side);
    while (tcp_wants_output(side->tcb, side->net->now)) {
        assert_true(tcp_output(side->tcb, &port, side->net->now));
        user_acts(side);
    }
    side->has_fin |= (tcp_take_events(side->tcb) & TCP_EVENT_FIN) != 0;
    tcp_check(side->tcb);
    if (side->net->watch != NULL) {
        side->net->watch(side->net->watch_ctx, side);
    }
}

/* ---- the listener ---------------------------------------------------------------------------- */

static const struct tcp_tuple tuple = {{1, 2, 3}};

static struct tcb *make(struct net *net, unsigned i)
{
    struct tcp_config config = net->config;
    config.local_port = (uint16_t)(1000 + i);
    config.remote_port = (uint16_t)(1001 - i);
    config.place =
        (struct place_port){.place = on_place, .on_advance = on_advance, .ctx = &net->side[i]};
    return tcp_create(&config);
}

static void listener_receives(struct net *net, const struct net_packet *p)
{
    struct tcp_segment segment = {p->header, span_of(p->octets, p->len), p->ecn};
    struct tcp_listen_answer answer;
    tcp_listener_on_segment(net->listener, &tuple, &segment, net->now, &answer);
    tcp_listener_check(net->listener);
    if (answer.has_reply) {
        launch(net, 0, &answer.reply, IP_ECN_NOT_ECT, NULL, 0);
    }
    if (answer.has_handshake) {
        net->side[1].tcb = make(net, 1);
        tcp_accept(net->side[1].tcb, &answer.handshake, net->now);
        naive_receive(&net->side[1], p);
        tcp_on_segment(net->side[1].tcb, &segment, net->now);
        check_against_naive(&net->side[1]);
        flush(&net->side[1]);
    }
}

static void listener_waits(struct net *net)
{
    struct tcp_tuple to;
    struct tcp_header reply;
    while (tcp_listener_on_deadline(net->listener, net->now, &to, &reply)) {
        assert_memory_equal(&to, &tuple, sizeof to);
        launch(net, 0, &reply, IP_ECN_NOT_ECT, NULL, 0);
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static void deliver(struct net *net, const struct net_packet *p)
{
    struct net_side *side = &net->side[p->to];
    struct tcp_segment segment = {p->header, span_of(p->octets, p->len), p->ecn};
    if (side->tcb == NULL) {
        listener_receives(net, p);
        return;
    }
    if (tcp_is_synchronized(side->tcb)) {
        naive_receive(side, p);
    }
    enum tcp_refusal refusal = tcp_on_segment(side->tcb, &segment, net->now);
    say(side, "in", &p->header, p->len, tcp_refusal_name(refusal));
    tcp_check(side->tcb);
    check_against_naive(side);
    flush(side);
}

static instant_ns next_time(const struct net *net)
{
    instant_ns next = tcp_listener_next_deadline(net->listener);
    if (net->packet_count > 0) {
        next = instant_min(next, net->heap[0]->at);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct net_side *side = &net->side[i];
        if (side->tcb != NULL) {
            next = instant_min(next, tcp_next_deadline(side->tcb));
            if (side->tcb->rcv.is_stalled) { // its user comes by
                next = instant_min(next, net->now + 50 * NS_PER_US);
            }
        }
    }
    return next;
}

static void step(struct net *net)
{
    instant_ns next = next_time(net);
    assert_true(next != INSTANT_NEVER);
    net->now = next > net->now ? next : net->now;
    while (net->packet_count > 0 && net->heap[0]->at <= net->now) {
        struct net_packet *p = pop(net);
        deliver(net, p);
        free(p);
    }
    listener_waits(net);
    for (unsigned i = 0; i < 2; i++) {
        struct net_side *side = &net->side[i];
        if (side->tcb != NULL) {
            if (tcp_next_deadline(side->tcb) <= net->now) {
                tcp_on_deadline(side->tcb, net->now);
            }
            flush(side);
        }
    }
}

static bool is_done(const struct net_side *side, const struct net_side *other)
{
    return side->tcb != NULL && side->has_fin && side->handed == other->send_len &&
           (side->is_over || tcp_get_state(side->tcb) == TCP_STATE_TIME_WAIT);
}

static void check_end(const struct net_side *side, const struct net_side *other)
{
    assert_int_equal(side->handed, other->send_len);
    assert_int_equal(side->released, side->placed_early);
    assert_int_equal(side->tcb->rcv.ranges.count, 0);
    assert_int_equal(side->tcb->rcv.buffered_len, 0);
    assert_int_equal(tcp_acked_position(side->tcb), side->send_len);
    assert_int_equal(side->tcb->counters.octets_in, other->send_len);
    assert_int_equal(side->tcb->counters.octets_out, side->send_len);
}

void net_run(struct net *net, duration_ns limit_ns)
{
    struct net_side *a = &net->side[0], *b = &net->side[1];
    struct tcp_listener_config listen = {
        .connection = net->config, .half_open_max = 4, .syn_ack_retries = 8};
    listen.connection.local_port = 1001;
    net->listener = tcp_listener_create(&listen);
    a->tcb = make(net, 0);
    tcp_connect(a->tcb, (uint32_t)prng_next(&net->prng), net->now);
    flush(a);
    while (!is_done(a, b) || !is_done(b, a)) {
        step(net);
        assert_true(net->now < limit_ns);
    }
    check_end(a, b);
    check_end(b, a);
}

void net_init(struct net *net, uint64_t seed)
{
    memset(net, 0, sizeof *net);
    prng_init(&net->prng, seed);
    net->config = tcp_config_default;
    net->delay_ns = 100 * NS_PER_US;
    net->faults_end = INSTANT_NEVER;
    net->stream = malloc(NET_STREAM_MAX);
    for (uint64_t i = 0; i < NET_STREAM_MAX; i++) {
        net->stream[i] = octet(i);
    }
    for (unsigned i = 0; i < 2; i++) {
        net->side[i] = (struct net_side){
            .net = net, .is_placed = calloc(NET_STREAM_MAX, 1), .naive = calloc(NET_STREAM_MAX, 1)};
    }
}

void net_fini(struct net *net)
{
    for (unsigned i = 0; i < 2; i++) {
        tcp_destroy(net->side[i].tcb);
        free(net->side[i].is_placed);
        free(net->side[i].naive);
    }
    while (net->packet_count > 0) {
        free(pop(net));
    }
    tcp_listener_destroy(net->listener);
    free(net->stream);
}
