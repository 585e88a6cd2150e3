// Scripted segment tests, in the form of packetdrill's: what arrives, what must leave in answer and
// when, what the program calls, and what it then finds. docs/segment-scripts.md describes the
// language; tests/net/scripts/ has the scripts.
//
//   script_text    words, numbers, times, segments as they are written
//   script_host    the host under test: what link/ does around net/, on virtual time
//   script_run     the lines of a script, one after the other
//
// The host under test is an interface and a host of net/, driven as link/ drives them: packets come
// in and leave as octets, work is done in net_output, and time passes by net_next_deadline and
// net_on_deadline. Nothing below net/ is called past them but what a program calls: connect, write,
// read, close.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/host.h"
#include "net/iface.h"

enum {
    SCRIPT_OPTIONS_MAX = 16,
    SCRIPT_CONNECTIONS_MAX = 8, // @1 to @8
    SCRIPT_WAITING_MAX = 8,
    SCRIPT_WORDS_MAX = 24,
    SCRIPT_LINE_MAX = 512,
    SCRIPT_PORT = 7471,        // ours,
    SCRIPT_PEER_PORT = 40000,  // and of the peer of @0: @1 has the next
    SCRIPT_IRS_DEFAULT = 5000, // the peer's initial sequence number
};

/* ---- script_text ----------------------------------------------------------------------------- */

struct script_error {
    const char *path;
    unsigned line;
    char text[1024]; // empty: none
};

// Notes the first error; returns false.
bool script_fail(struct script_error *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum script_option_kind {
    SCRIPT_OPTION_MSS,
    SCRIPT_OPTION_SCALE,
    SCRIPT_OPTION_SACK_OK,
    SCRIPT_OPTION_TIMESTAMPS,
    SCRIPT_OPTION_SACK,
    SCRIPT_OPTION_RAW, // octets as they stand, the no operation and the end of the list too
};

struct script_option {
    enum script_option_kind kind;
    uint32_t a, b;           // MSS, shift count; left and right; value and echo
    bool is_any_a, is_any_b; // written as *
    uint8_t octets[TCP_OPTIONS_MAX_LEN];
    size_t len;
};

// A segment as written: sequence numbers count from the initial ones.
struct script_segment {
    uint8_t flags;
    enum ip_ecn ecn; // of its packet
    uint32_t seq, len;
    uint32_t ack;
    bool has_window;
    uint16_t window;
    uint16_t urgent;
    unsigned count; // segments of equal length that this stands for
    bool has_any_options;
    struct script_option option[SCRIPT_OPTIONS_MAX];
    unsigned option_count;
    bool has_bad_checksum;
    bool has_from, has_to; // other addresses than the connection's
    uint8_t from[IPV4_ADDR_LEN], to[IPV4_ADDR_LEN];
    unsigned data_offset; // words; 0: as it is
};

struct script_words {
    char *word[SCRIPT_WORDS_MAX];
    unsigned count, at; // `at`: the next that has not been read
};

// Cuts `line`, which is changed, at blanks; what stands in <> is one word.
bool script_words_cut(struct script_error *e, char *line, struct script_words *ret);
// NULL: there is none left.
char *script_word_next(struct script_words *w);
// Takes the next word if it is this one.
bool script_word_take(struct script_words *w, const char *word);
bool script_number(struct script_error *e, const char *text, uint32_t *ret);
bool script_next_number(struct script_error *e, struct script_words *w, uint32_t *ret);
// "0.25", ".25", "250ms", "40us": seconds if nothing is said.
bool script_duration(struct script_error *e, const char *text, duration_ns *ret);
bool script_segment_read(struct script_error *e, struct script_words *w,
                         struct script_segment *ret);
// Flags as they are written: "SFRPUEW."
const char *script_flags_format(uint8_t flags, char *buf);

// The octet of either stream at this position.
static inline uint8_t script_octet(uint64_t position)
{
    return (uint8_t)(position * 131 + (position >> 8) * 17 + 5);
}

/* ---- script_host ----------------------------------------------------------------------------- */

// One connection, or what never becomes one, and its peer.
struct script_connection {
    struct net_connection connection;
    struct net_flow flow;
    uint32_t irs;
    bool has_iss, has_timestamps;
    uint32_t iss;            // ours, known when a SYN has left
    uint32_t timestamp_base; // our timestamp at the script's beginning, likewise
    uint16_t window;         // of the peer's segments, until one says otherwise
    bool exists, was_there;
    // What the program knows.
    uint64_t read_max, handed; // octets of the stream: it takes so many, and has taken
    bool has_fin;
    bool is_wrong; // it was given octets that the peer did not send, or not in their place
    enum place_verdict beyond; // what it answers beyond holes
    enum tcp_state state;      // once it is over
    int status;
    struct tcp_info info;
    struct tcp_counters counters;
};

struct script_packet {
    struct list_link link;
    instant_ns at_ns;
    size_t len;
    uint8_t octets[];
};

struct script_settings {
    struct tcp_config tcp;
    uint32_t family; // 4 or 6
    uint32_t mtu;
    uint32_t reset_max;
    uint32_t peer_isn;
    bool has_isn;
    uint32_t isn;
    enum place_verdict beyond;
    duration_ns tolerance_ns; // a segment may leave by so much before or behind its time
};

struct script_host {
    struct script_settings settings;
    struct net_host *host;
    struct net_iface iface;
    instant_ns began_ns, now_ns;
    bool has_room, takes_incoming;
    bool is_listening;
    struct net_listener listener;
    struct script_connection *waiting[SCRIPT_WAITING_MAX];
    unsigned waiting_count;
    struct script_connection connection[SCRIPT_CONNECTIONS_MAX + 1];
    struct list_link sent; // packets
};

// By what settings say. Made once, when the first line with a time comes.
bool script_host_init(struct script_host *h);
void script_host_fini(struct script_host *h);

void script_host_on_packet(struct script_host *h, const uint8_t *octets, size_t len);
// A look of the link: deadlines, then what leaves.
void script_host_look(struct script_host *h);
// Lets time pass up to `at_ns`, or until a packet has left.
bool script_host_wait(struct script_host *h, instant_ns at_ns, bool until_sent);
struct script_packet *script_host_take(struct script_host *h); // the first that left; NULL
void script_host_drop_sent(struct script_host *h);
struct script_connection *script_host_find(struct script_host *h, const struct net_flow *flow);
void script_host_end(struct script_host *h, struct script_connection *c);
bool script_host_connect(struct script_host *h, struct script_connection *c);
int script_host_listen(struct script_host *h, unsigned backlog, unsigned half_open,
                       unsigned retries, bool answers_once);
void script_host_unlisten(struct script_host *h);
void script_host_read(struct script_host *h, struct script_connection *c, uint64_t max);
size_t script_host_write(struct script_host *h, struct script_connection *c, uint32_t len,
                         uint32_t records);
// What it counts: that of a connection that is over stays.
void script_connection_info(const struct script_connection *c, struct tcp_info *ret,
                            enum tcp_state *ret_state);

/* ---- script_wire ----------------------------------------------------------------------------- */

// The peer sends this segment on `c`.
void script_wire_send(struct script_host *h, struct script_connection *c,
                      const struct script_segment *s);
// A router says `type`, `code` and `rest` about our segment with this sequence number.
void script_wire_send_icmp(struct script_host *h, const struct script_connection *c, uint8_t type,
                           uint8_t code, uint32_t rest, uint32_t seq);
// A packet that left, said in the language. `*ret`: whose it is.
struct script_seen {
    struct script_connection *connection;
    struct tcp_header header;
    uint8_t flags; // all eight
    enum ip_ecn ecn;
    uint32_t len;
    bool is_payload_right;
};
bool script_wire_read(struct script_error *e, struct script_host *h, const struct script_packet *p,
                      struct script_seen *ret);
const char *script_seen_format(const struct script_seen *seen, char *buf, size_t len);
// Whether segment `index` of those that `wanted` stands for is what left.
bool script_seen_is(const struct script_seen *seen, const struct script_segment *wanted,
                    unsigned index);

/* ---- script_settings ------------------------------------------------------------------------- */

void script_settings_init(struct script_settings *settings);
// The rest of a line that begins with `set`.
bool script_setting_read(struct script_error *e, struct script_words *w,
                         struct script_settings *ret);

/* ---- script_run ------------------------------------------------------------------------------ */

// Runs the script in `text`, which is changed. False: `e` says where it went wrong and how.
bool script_run(struct script_error *e, char *text);
