#include "host/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/settings.h>

#include "base/device_wire.h"
#include "host/link_kind.h"
#include "host/trace.h"
#include "link/fault_model.h"
#include "text/quantity.h"

enum kind {
    KIND_SWITCH,
    KIND_COPY,
    KIND_WORD,
    KIND_SECONDS,
    KIND_NUMBER,
    KIND_ROOMS,
    KIND_PATH,
    KIND_LINK,
    KIND_FAULT,
    KIND_WIRES,
};

struct setting {
    struct weft_setting shown;
    enum kind kind;
    size_t offset;
    uint64_t low, high;       // KIND_SECONDS, KIND_NUMBER: the allowed range; texts: `high` octets
    const char *const *words; // KIND_WORD: what may be said; the value is the place, NULL ends it
};

// What the field of a setting of each kind is; one of another type does not compile.
#define FIELD_OF_KIND_SWITCH  bool
#define FIELD_OF_KIND_COPY    bool
#define FIELD_OF_KIND_WORD    uint32_t
#define FIELD_OF_KIND_SECONDS duration_ns
#define FIELD_OF_KIND_NUMBER  uint32_t
#define FIELD_OF_KIND_ROOMS   uint32_t
#define FIELD_OF_KIND_PATH    char *
#define FIELD_OF_KIND_LINK    char *
#define FIELD_OF_KIND_FAULT   char *
#define FIELD_OF_KIND_WIRES   uint32_t

#define OFFSET(what, field)                                      \
    _Generic(((struct host_settings *)0)->field, FIELD_OF_##what \
             : offsetof(struct host_settings, field))

#define SETTING(env, what, field, lo, hi, arg, allowed, first, text)                    \
    {                                                                                   \
        .shown = {env, arg, allowed, first, text}, .kind = what, .low = lo, .high = hi, \
        .offset = OFFSET(what, field),                                                  \
    }
#define SWITCH(env, field, first, text) \
    SETTING(env, KIND_SWITCH, field, 0, 1, "SWITCH", "on or off", first, text)
#define SECONDS(env, field, first, text) \
    SETTING(env, KIND_SECONDS, field, 1, 86400, "SECONDS", "1 to 86400 seconds", first, text)
#define OCTETS(env, field, first, text) \
    SETTING(env, KIND_NUMBER, field, 0, 1 << 30, "OCTETS", "0 to 1073741824 octets", first, text)
#define NUMBER(env, field, lo, hi, first, text) \
    SETTING(env, KIND_NUMBER, field, lo, hi, "NUMBER", #lo " to " #hi, first, text)
#define PATH(env, field, text)                                                          \
    SETTING(env, KIND_PATH, field, 0, sizeof((struct host_settings *)0)->field, "FILE", \
            "a path of at most 255 octets", "", text)

#define WORD(env, field, list, allowed, first, text)                                    \
    {                                                                                   \
        .shown = {env, "WORD", allowed, first, text}, .kind = KIND_WORD, .words = list, \
        .offset = OFFSET(KIND_WORD, field),                                             \
    }

// In the order of enum rnic_oneshot and enum rnic_oneshot_parts.
static const char *const oneshot_words[] = {"off", "flags", "opcode", NULL};
static const char *const oneshot_part_words[] = {"both", "advertise", "close", NULL};

// In the order of enum tcp_ecn_wish.
static const char *const ecn_words[] = {"off", "accept", "request", NULL};
// In the order of enum placement.
static const char *const placement_words[] = {"early", "strict", "off", NULL};

static const struct setting settings[] = {
    SETTING("WEFT_WIRE", KIND_WIRES, wires, 0, 0, "WIRE", DEVICE_WIRES_VALUES, "both",
            "which devices there are: weft0 (iWARP), weft_roce0 (RoCEv2)"),
    SWITCH("WEFT_VIEW_FILES", view_files, "on",
           "show them as files too, for programs that look for such"),
    SETTING("WEFT_LINK", KIND_LINK, link, 0, sizeof((struct host_settings *)0)->link, "LINK",
            HOST_LINK_VALUES, "socket", "what carries the connections"),
    SWITCH("WEFT_LOCAL", local, "on",
           "carry connections within this host through memory of both processes"),
    SWITCH("WEFT_PUSH", push, "on",
           "put short Writes into the memory of a process of this host, without its help"),
    SWITCH("WEFT_PULL", pull, "on",
           "copy what Reads ask for out of the memory of a process of this host"),
    NUMBER("WEFT_ROCE_PORT", roce_port, 1024, 49151, "4791",
           "the UDP port of RoCEv2's packets; both ends have the same one"),
    SETTING("WEFT_FAULT", KIND_FAULT, fault, 0, sizeof((struct host_settings *)0)->fault, "FAULTS",
            FAULT_VALUES, "", "make the path bad, on links with weft's own TCP"),
    WORD("WEFT_ECN", ecn, ecn_words, "off, accept or request", "accept",
         "whether weft's own TCP takes marks in place of losses (RFC 3168)"),
    SWITCH("WEFT_CRC", rnic.crc, "on",
           "ask for a CRC in every FPDU, and look at ICRCs; within a host only if this is said"),
    SWITCH("WEFT_MARKERS", rnic.markers, "off", "ask the peer for markers in what it sends"),
    WORD("WEFT_PLACEMENT", rnic.placement, placement_words, "early, strict or off", "early",
         "which octets beyond a hole of the stream go to their place at once"),
    SWITCH("WEFT_EXTENSIONS", rnic.extensions, "on", "offer weft's own extensions at start-up"),
    WORD("WEFT_ONESHOT", rnic.oneshot, oneshot_words, "flags, opcode or off", "flags",
         "how one-shot RDMA marks an STag in the header of a Send"),
    WORD("WEFT_ONESHOT_PARTS", rnic.oneshot_parts, oneshot_part_words, "both, advertise or close",
         "both", "which marks of one-shot RDMA are wanted"),
    SWITCH("WEFT_PEER_TO_PEER", rnic.peer_to_peer, "on", "offer peer-to-peer start-up (RFC 6581)"),
    SWITCH("WEFT_WRITE_FLUSH", rnic.write_flush, "off",
           "complete a signalled Write behind a zero-length Read"),
    SETTING("WEFT_TX", KIND_COPY, rnic.tx_copy, 0, 1, "MODE", "copy or reference", "reference",
            "copy what Sends and Writes carry, or send it from the program's memory"),
    SETTING("WEFT_MPA_REVISION", KIND_NUMBER, rnic.mpa_revision, 1, 2, "NUMBER", "1 or 2", "2",
            "the MPA revision of our requests"),
    SECONDS("WEFT_PEER_TIMEOUT", peer_timeout_ns, "10", "how long a peer may be silent"),
    SECONDS("WEFT_RNR_TIMEOUT", rnic.rnr_timeout_ns, "8", "how long a Send may wait for a receive"),
    SECONDS("WEFT_MPA_TIMEOUT", rnic.mpa_timeout_ns, "10", "how long a start-up frame may take"),
    OCTETS("WEFT_RNR_STORE", rnic.rnr_store_len, "262144",
           "the store of a queue pair for Sends without a receive"),
    NUMBER("WEFT_READ_CONTEXTS", rnic.read_contexts, 1, 65536, "128",
           "how many Reads and atomics of all queue pairs may be out at a time"),
    OCTETS("WEFT_READ_ALLOTMENT", rnic.read_allotment_len, "262144",
           "how much one request of a Read fetches at most; 0: undivided"),
    NUMBER("WEFT_READ_DEPTH", rnic.read_depth, 0, 128, "0",
           "how many requests of one Read are out at a time; 0: what fills the pipe"),
    OCTETS("WEFT_READ_TURN", rnic.read_turn_len, "131072",
           "how much of Read Responses a queue pair sends before others do; 0: all of one"),
    SECONDS("WEFT_READ_TIMEOUT", rnic.read_timeout_ns, "30",
            "how long the answer to a Read or atomic may make no progress"),
    SWITCH("WEFT_READ_PRESSURE", read_pressure, "on",
           "take a quarter of the allotment while the kernel tells that memory is short"),
    OCTETS("WEFT_SNDBUF", sndbuf_len, "0", "the socket's send buffer; 0: the kernel's choice"),
    OCTETS("WEFT_RCVBUF", rcvbuf_len, "0", "the socket's receive buffer; 0: the kernel's choice"),
    SWITCH("WEFT_ERRORS", errors, "on", "say why a connection ended badly"),
    SETTING("WEFT_TRACE", KIND_ROOMS, trace_rooms, 0, 0, "ROOMS",
            "all, or some of " HOST_TRACE_ROOMS " with commas between", "", "the rooms that trace"),
    PATH("WEFT_TRACE_FILE", trace_path, "where trace lines are appended"),
    PATH("WEFT_PCAP", pcap_path, "capture the traffic; .pcapng: posts too; %p: the process id"),
    PATH("WEFT_STATS_FILE", stats_path, "write the counters at exit; %p: the process id"),
};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

static bool switch_parse(const char *text, const char *on, const char *off, bool *ret)
{
    if (strcmp(text, on) == 0 || strcmp(text, "1") == 0) {
        *ret = true;
    } else if (strcmp(text, off) == 0 || strcmp(text, "0") == 0) {
        *ret = false;
    } else {
        return false;
    }
    return true;
}

static bool word_parse(const struct setting *s, const char *text, uint32_t *ret)
{
    for (uint32_t i = 0; s->words[i] != NULL; i++) {
        if (strcmp(s->words[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool text_is_good(enum kind kind, const char *text)
{
    struct fault_config faults;
    switch (kind) {
    case KIND_LINK:
        return host_link_is_known(text);
    case KIND_FAULT:
        return fault_config_parse(text, &faults);
    default:
        return true;
    }
}

// False: `text` is not a value of this setting, and nothing has changed.
static bool setting_apply(const struct setting *s, const char *text, struct host_settings *into)
{
    char *field = (char *)into + s->offset;
    uint64_t number;
    switch (s->kind) {
    case KIND_SWITCH:
        return switch_parse(text, "on", "off", (FIELD_OF_KIND_SWITCH *)field);
    case KIND_COPY:
        return switch_parse(text, "copy", "reference", (FIELD_OF_KIND_COPY *)field);
    case KIND_WORD:
        return word_parse(s, text, (FIELD_OF_KIND_WORD *)field);
    case KIND_SECONDS:
        if (!text_number_parse(text, s->low, s->high, &number)) {
            return false;
        }
        *(FIELD_OF_KIND_SECONDS *)field = number * NS_PER_S;
        return true;
    case KIND_NUMBER:
        if (!text_number_parse(text, s->low, s->high, &number)) {
            return false;
        }
        *(FIELD_OF_KIND_NUMBER *)field = (FIELD_OF_KIND_NUMBER)number;
        return true;
    case KIND_ROOMS:
        return host_trace_rooms_parse(text, (FIELD_OF_KIND_ROOMS *)field);
    case KIND_WIRES:
        return device_wires_parse(text, (FIELD_OF_KIND_WIRES *)field);
    case KIND_LINK:
    case KIND_FAULT:
    case KIND_PATH:
        if (strlen(text) >= s->high || !text_is_good(s->kind, text)) {
            return false;
        }
        memcpy(field, text, strlen(text) + 1);
        return true;
    }
    return false;
}

static bool is_said(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && *text != '\0';
}

void host_settings_read(struct host_settings *ret)
{
    *ret = (struct host_settings){0};
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct weft_setting *shown = &settings[i].shown;
        setting_apply(&settings[i], shown->initial, ret);
        const char *text = secure_getenv(shown->name); // not of a set-uid program
        if (text != NULL && *text != '\0' && !setting_apply(&settings[i], text, ret)) {
            fprintf(stderr, "weft: cannot use %s=%s: it must be %s; the default is used instead\n",
                    shown->name, text, shown->values);
        }
    }
    // Within the host a CRC is for those who ask for it in so many words.
    ret->rnic.crc_within_host = ret->rnic.crc && is_said("WEFT_CRC");
}

/* ---- the table, as programs see it ----------------------------------------------------------- */

const struct weft_setting *weft_setting_at(size_t index)
{
    return index < SETTING_COUNT ? &settings[index].shown : NULL;
}

bool weft_setting_accepts(const struct weft_setting *setting, const char *value)
{
    struct host_settings scratch;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (setting == &settings[i].shown) {
            return setting_apply(&settings[i], value, &scratch);
        }
    }
    return false;
}
