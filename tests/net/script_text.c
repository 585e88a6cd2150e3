#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "tests/net/script.h"

bool script_fail(struct script_error *e, const char *format, ...)
{
    va_list args;
    if (e->text[0] == '\0') {
        va_start(args, format);
        vsnprintf(e->text, sizeof e->text, format, args);
        va_end(args);
    }
    return false;
}

/* ---- words and numbers ----------------------------------------------------------------------- */

// Where a word ends that begins at `p`; options in <> are one, and <= is another.
static char *word_end(char *p)
{
    if (*p == '<' && p[1] != '\0' && p[1] != '=' && !isspace((unsigned char)p[1])) {
        char *close = strchr(p, '>');
        return close == NULL ? NULL : close + 1;
    }
    while (*p != '\0' && !isspace((unsigned char)*p)) {
        p++;
    }
    return p;
}

bool script_words_cut(struct script_error *e, char *line, struct script_words *ret)
{
    *ret = (struct script_words){.count = 0};
    for (char *p = line;;) {
        while (isspace((unsigned char)*p)) {
            p++;
        }
        if (*p == '\0' || *p == '#') {
            return true;
        }
        char *end = word_end(p);
        if (end == NULL) {
            return script_fail(e, "options begin with < and do not end with >");
        }
        if (ret->count == SCRIPT_WORDS_MAX) {
            return script_fail(e, "too many words in a line");
        }
        ret->word[ret->count++] = p;
        p = end;
        if (*p != '\0') {
            *p++ = '\0';
        }
    }
}

char *script_word_next(struct script_words *w)
{
    return w->at < w->count ? w->word[w->at++] : NULL;
}

bool script_word_take(struct script_words *w, const char *word)
{
    bool is_it = w->at < w->count && strcmp(w->word[w->at], word) == 0;
    w->at += is_it;
    return is_it;
}

bool script_number(struct script_error *e, const char *text, uint32_t *ret)
{
    char *end;
    unsigned long long value = text == NULL ? 0 : strtoull(text, &end, 0);
    if (text == NULL || !isdigit((unsigned char)text[0]) || *end != '\0' || value > UINT32_MAX) {
        return script_fail(e, "a number was expected, not '%s'", text == NULL ? "" : text);
    }
    *ret = (uint32_t)value;
    return true;
}

bool script_next_number(struct script_error *e, struct script_words *w, uint32_t *ret)
{
    return script_number(e, script_word_next(w), ret);
}

bool script_duration(struct script_error *e, const char *text, duration_ns *ret)
{
    char *end;
    double value = text == NULL ? -1 : strtod(text, &end);
    double unit = 0;
    if (text != NULL) {
        unit = strcmp(end, "") == 0 || strcmp(end, "s") == 0 ? 1e9
               : strcmp(end, "ms") == 0                      ? 1e6
               : strcmp(end, "us") == 0                      ? 1e3
               : strcmp(end, "ns") == 0                      ? 1
                                                             : 0;
    }
    if (value < 0 || unit == 0 || end == text || value * unit > 1e18) {
        return script_fail(e, "a time was expected, not '%s'", text == NULL ? "" : text);
    }
    *ret = (duration_ns)(value * unit + 0.5);
    return true;
}

/* ---- flags ----------------------------------------------------------------------------------- */

static const struct {
    char letter;
    uint8_t flag;
} flag_letters[] = {
    {'S', TCP_SYN}, {'F', TCP_FIN}, {'R', TCP_RST}, {'P', TCP_PSH},
    {'U', TCP_URG}, {'E', TCP_ECE}, {'W', TCP_CWR}, {'.', TCP_ACK},
};
enum { FLAG_COUNT = sizeof flag_letters / sizeof flag_letters[0] };

static bool flags_read(struct script_error *e, const char *text, uint8_t *ret)
{
    *ret = 0;
    for (const char *p = strcmp(text, "-") == 0 ? "" : text; *p != '\0'; p++) {
        unsigned i = 0;
        while (i < FLAG_COUNT && flag_letters[i].letter != *p) {
            i++;
        }
        if (i == FLAG_COUNT) {
            return script_fail(e, "flags are letters of SFRPUEW and . for ACK, not '%s'", text);
        }
        *ret |= flag_letters[i].flag;
    }
    return true;
}

const char *script_flags_format(uint8_t flags, char *buf)
{
    size_t len = 0;
    for (unsigned i = 0; i < FLAG_COUNT; i++) {
        if ((flags & flag_letters[i].flag) != 0) {
            buf[len++] = flag_letters[i].letter;
        }
    }
    if (len == 0) {
        buf[len++] = '-';
    }
    buf[len] = '\0';
    return buf;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool number_or_any(struct script_error *e, const char *text, uint32_t *ret, bool *ret_any)
{
    *ret_any = text != NULL && strcmp(text, "*") == 0;
    return *ret_any || script_number(e, text, ret);
}

// "left:right"
static bool block_read(struct script_error *e, const char *text, struct script_option *ret)
{
    unsigned left, right;
    int len = 0;
    if (sscanf(text, "%u:%u%n", &left, &right, &len) != 2 || text[len] != '\0') {
        return script_fail(e, "a SACK block is left:right, not '%s'", text);
    }
    *ret = (struct script_option){.kind = SCRIPT_OPTION_SACK, .a = left, .b = right};
    return true;
}

static bool hex_read(struct script_error *e, const char *text, struct script_option *ret)
{
    unsigned octet;
    size_t len = text == NULL ? 1 : strlen(text);
    for (size_t i = 0; len % 2 == 0 && i < len; i += 2) {
        if (ret->len == TCP_OPTIONS_MAX_LEN || sscanf(text + i, "%2x", &octet) != 1) {
            return script_fail(e, "octets are pairs of hexadecimal digits, not '%s'", text);
        }
        ret->octets[ret->len++] = (uint8_t)octet;
    }
    return len % 2 == 0 || script_fail(e, "octets are pairs of hexadecimal digits");
}

static bool option_read(struct script_error *e, char *name, char **rest, struct script_option *ret)
{
    bool is_ts = strcmp(name, "TS") == 0;
    char *first = strtok_r(NULL, " ", rest);
    if (strcmp(name, "mss") == 0 || strcmp(name, "wscale") == 0) {
        ret->kind = name[0] == 'm' ? SCRIPT_OPTION_MSS : SCRIPT_OPTION_SCALE;
        return number_or_any(e, first, &ret->a, &ret->is_any_a);
    }
    if (is_ts && first != NULL && strcmp(first, "val") == 0) {
        ret->kind = SCRIPT_OPTION_TIMESTAMPS;
        if (!number_or_any(e, strtok_r(NULL, " ", rest), &ret->a, &ret->is_any_a)) {
            return false;
        }
        char *word = strtok_r(NULL, " ", rest);
        return word != NULL && strcmp(word, "ecr") == 0
                   ? number_or_any(e, strtok_r(NULL, " ", rest), &ret->b, &ret->is_any_b)
                   : script_fail(e, "timestamps are written as TS val N ecr N");
    }
    if (strcmp(name, "sackOK") == 0) {
        ret->kind = SCRIPT_OPTION_SACK_OK;
        return true;
    }
    ret->kind = SCRIPT_OPTION_RAW;
    if (strcmp(name, "nop") == 0 || strcmp(name, "eol") == 0) {
        ret->len = 1;
        ret->octets[0] = name[0] == 'n' ? TCP_OPTION_NOP : TCP_OPTION_END;
        return true;
    }
    return strcmp(name, "raw") == 0 ? hex_read(e, first, ret)
                                    : script_fail(e, "no option is called '%s'", name);
}

static bool option_add(struct script_error *e, struct script_segment *s,
                       const struct script_option *o)
{
    if (s->option_count == SCRIPT_OPTIONS_MAX) {
        return script_fail(e, "too many options");
    }
    s->option[s->option_count++] = *o;
    return true;
}

// "sack 1:2 3:4"
static bool sack_read(struct script_error *e, struct script_segment *s, char **rest)
{
    char *block;
    while ((block = strtok_r(NULL, " ", rest)) != NULL) {
        struct script_option o;
        if (!block_read(e, block, &o) || !option_add(e, s, &o)) {
            return false;
        }
    }
    return true;
}

// "<...>", with commas between options.
static bool options_read(struct script_error *e, char *text, struct script_segment *s)
{
    char *rest, *inner, *option;
    text[strlen(text) - 1] = '\0';
    s->has_any_options = strcmp(text + 1, "...") == 0;
    if (s->has_any_options) {
        return true;
    }
    for (option = strtok_r(text + 1, ",", &rest); option != NULL;
         option = strtok_r(NULL, ",", &rest)) {
        char *name = strtok_r(option, " ", &inner);
        struct script_option o = {.len = 0};
        if (name == NULL) {
            return script_fail(e, "an option without a name");
        }
        if (strcmp(name, "sack") == 0) {
            if (!sack_read(e, s, &inner)) {
                return false;
            }
        } else if (!option_read(e, name, &inner, &o) || !option_add(e, s, &o)) {
            return false;
        }
    }
    return true;
}

/* ---- segments -------------------------------------------------------------------------------- */

static bool range_read(struct script_error *e, const char *text, struct script_segment *s)
{
    unsigned begin, end, len;
    int read = 0;
    if (text == NULL || sscanf(text, "%u:%u(%u)%n", &begin, &end, &len, &read) != 3 ||
        text[read] != '\0') {
        return script_fail(e, "a segment's octets are begin:end(length), not '%s'",
                           text == NULL ? "" : text);
    }
    if (begin + len != end) {
        return script_fail(e, "from %u to %u there are not %u octets", begin, end, len);
    }
    s->seq = begin;
    s->len = len;
    return true;
}

static bool addr_read(struct script_error *e, const char *text, uint8_t ret[IPV4_ADDR_LEN])
{
    unsigned octet[IPV4_ADDR_LEN];
    int read = 0;
    if (text == NULL ||
        sscanf(text, "%3u.%3u.%3u.%3u%n", &octet[0], &octet[1], &octet[2], &octet[3], &read) !=
            IPV4_ADDR_LEN ||
        text[read] != '\0') {
        return script_fail(e, "an IPv4 address was expected, not '%s'", text == NULL ? "" : text);
    }
    for (unsigned i = 0; i < IPV4_ADDR_LEN; i++) {
        ret[i] = (uint8_t)octet[i];
    }
    return true;
}

static bool word_read(struct script_error *e, struct script_words *w, struct script_segment *s)
{
    uint32_t n = 0;
    char *word = script_word_next(w);
    if (word[0] == '<') {
        return options_read(e, word, s);
    }
    if (strcmp(word, "badsum") == 0) {
        s->has_bad_checksum = true;
        return true;
    }
    if (strcmp(word, "from") == 0 || strcmp(word, "to") == 0) {
        s->has_from |= word[0] == 'f';
        s->has_to |= word[0] == 't';
        return addr_read(e, script_word_next(w), word[0] == 'f' ? s->from : s->to);
    }
    if (!script_next_number(e, w, &n)) {
        return false;
    }
    if (strcmp(word, "ack") == 0) {
        s->ack = n;
    } else if (strcmp(word, "win") == 0 && n <= UINT16_MAX) {
        s->has_window = true;
        s->window = (uint16_t)n;
    } else if (strcmp(word, "urg") == 0) {
        s->urgent = (uint16_t)n;
    } else if (strcmp(word, "in") == 0 && n > 0) {
        s->count = n;
    } else if (strcmp(word, "doff") == 0 && n > 0 && n < 16) {
        s->data_offset = n;
    } else {
        return script_fail(e, "a segment has no '%s %u'", word, n);
    }
    return true;
}

// "[ce]": what IP says. Without it, that the sender heeds no marks.
static enum ip_ecn ecn_read(struct script_words *w)
{
    static const char *const names[] = {"[noecn]", "[ect1]", "[ect0]", "[ce]"}; // of enum ip_ecn
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (script_word_take(w, names[i])) {
            return (enum ip_ecn)i;
        }
    }
    return IP_ECN_NOT_ECT;
}

bool script_segment_read(struct script_error *e, struct script_words *w, struct script_segment *ret)
{
    *ret = (struct script_segment){.count = 1, .ecn = ecn_read(w)};
    const char *flags = script_word_next(w);
    if (flags == NULL || !flags_read(e, flags, &ret->flags) ||
        !range_read(e, script_word_next(w), ret)) {
        return script_fail(e, "a segment was expected");
    }
    while (w->at < w->count) {
        if (!word_read(e, w, ret)) {
            return false;
        }
    }
    return true;
}
