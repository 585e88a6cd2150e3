#include <string.h>

#include "tests/net/script.h"

void script_settings_init(struct script_settings *settings)
{
    *settings = (struct script_settings){
        .tcp = tcp_config_default,
        .family = 4,
        .mtu = 1500,
        .reset_max = 100,
        .peer_isn = SCRIPT_IRS_DEFAULT,
        .beyond = PLACE_BUFFER,
        .tolerance_ns = NS_PER_MS,
    };
}

enum setting_kind { SET_U16, SET_U32, SET_DURATION, SET_BOOL, SET_UNSIGNED };

#define OF_TCP(field) offsetof(struct script_settings, tcp.field)
#define OF(field)     offsetof(struct script_settings, field)

static const struct {
    const char *name;
    enum setting_kind kind;
    size_t at;
} settings[] = {
    {"window", SET_U32, OF_TCP(window_len)},
    {"buffer", SET_U32, OF_TCP(buffer_len)},
    {"send_buffer", SET_U32, OF_TCP(send_len)},
    {"ranges", SET_U16, OF_TCP(range_max)},
    {"flight", SET_U16, OF_TCP(flight_max)},
    {"nagle", SET_BOOL, OF_TCP(nagle)},
    {"delayed_ack", SET_DURATION, OF_TCP(delayed_ack_ns)},
    {"rto_min", SET_DURATION, OF_TCP(rto_min_ns)},
    {"connect_timeout", SET_DURATION, OF_TCP(connect_timeout_ns)},
    {"user_timeout", SET_DURATION, OF_TCP(user_timeout_ns)},
    {"user_timeout_when_shut", SET_BOOL, OF_TCP(user_timeout_when_shut)},
    {"keepalive_idle", SET_DURATION, OF_TCP(keepalive_idle_ns)},
    {"keepalive_interval", SET_DURATION, OF_TCP(keepalive_interval_ns)},
    {"keepalive_count", SET_UNSIGNED, OF_TCP(keepalive_count)},
    {"time_wait", SET_DURATION, OF_TCP(time_wait_ns)},
    {"challenges", SET_U32, OF_TCP(challenge_max)},
    {"family", SET_U32, OF(family)},
    {"mtu", SET_U32, OF(mtu)},
    {"resets", SET_U32, OF(reset_max)},
    {"peer_isn", SET_U32, OF(peer_isn)},
};

static bool setting_put(struct script_error *e, enum setting_kind kind, void *at, const char *value)
{
    duration_ns duration;
    uint32_t n = 0;
    if (kind == SET_DURATION) {
        return script_duration(e, value, &duration) && memcpy(at, &duration, sizeof duration);
    }
    if (kind == SET_BOOL && value != NULL && value[0] == 'o') {
        *(bool *)at = strcmp(value, "on") == 0;
        return true;
    }
    if (!script_number(e, value, &n)) {
        return false;
    }
    if (kind == SET_U16) {
        *(uint16_t *)at = (uint16_t)n;
    } else {
        *(uint32_t *)at = n;
    }
    return true;
}

static bool wish_put(struct script_settings *s, unsigned wish, const char *value)
{
    unsigned *wishes = &s->tcp.wishes;
    *wishes = strcmp(value, "on") == 0 ? *wishes | wish : *wishes & ~wish;
    return true;
}

// Those that are no plain field.
static bool setting_special(struct script_error *e, struct script_settings *s, const char *name,
                            const char *value)
{
    if (strcmp(name, "sack") == 0) {
        return wish_put(s, TCP_WISH_SACK, value);
    }
    if (strcmp(name, "timestamps") == 0) {
        return wish_put(s, TCP_WISH_TIMESTAMPS, value);
    }
    if (strcmp(name, "wscale") == 0) {
        return wish_put(s, TCP_WISH_SCALE, value);
    }
    if (strcmp(name, "cc") == 0) {
        s->tcp.cc = strcmp(value, "newreno") == 0 ? TCP_CC_NEWRENO : TCP_CC_CUBIC;
        return true;
    }
    if (strcmp(name, "ecn") == 0) {
        s->tcp.ecn = strcmp(value, "request") == 0  ? TCP_ECN_REQUEST
                     : strcmp(value, "accept") == 0 ? TCP_ECN_ACCEPT
                                                    : TCP_ECN_OFF;
        return true;
    }
    if (strcmp(name, "tolerance") == 0) {
        return script_duration(e, value, &s->tolerance_ns);
    }
    if (strcmp(name, "isn") == 0) {
        s->has_isn = true;
        return script_number(e, value, &s->isn);
    }
    if (strcmp(name, "beyond") == 0) {
        s->beyond = strcmp(value, "place") == 0  ? PLACE_PLACED
                    : strcmp(value, "drop") == 0 ? PLACE_DROP
                                                 : PLACE_BUFFER;
        return true;
    }
    return script_fail(e, "no setting is called '%s'", name);
}

bool script_setting_read(struct script_error *e, struct script_words *w,
                         struct script_settings *ret)
{
    const char *name = script_word_next(w), *value = script_word_next(w);
    if (name == NULL || value == NULL) {
        return script_fail(e, "a setting is 'set name value'");
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (strcmp(name, settings[i].name) == 0) {
            return setting_put(e, settings[i].kind, (char *)ret + settings[i].at, value);
        }
    }
    return setting_special(e, ret, name, value);
}
