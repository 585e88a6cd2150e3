#include "draw/svg_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WIDE_PER_MILLE = 600 }; // the width of a usual character by its height, in a wide font

unsigned svg_text_room(int width, int tenths)
{
    return width <= 0 ? 0 : (unsigned)(width * 10000 / (tenths * WIDE_PER_MILLE));
}

static bool is_begin(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80; // of a character in UTF-8
}

size_t svg_text_count(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += is_begin(*text);
    }
    return count;
}

// Octets of the first `room` characters, at most as many as there is space for.
static size_t prefix_len(const char *text, unsigned room)
{
    size_t len = 0, count = 0;
    while (text[len] != '\0' && len < SVG_TEXT_MAX - 8) {
        count += is_begin(text[len]);
        if (count > room) {
            break;
        }
        len++;
    }
    return len;
}

const char *svg_text_cut(const char *text, unsigned room, char ret[SVG_TEXT_MAX])
{
    bool is_whole = svg_text_count(text) <= room && strlen(text) < SVG_TEXT_MAX - 8;
    size_t len = is_whole ? strlen(text) : prefix_len(text, room > 0 ? room - 1 : 0);
    memcpy(ret, text, len);
    memcpy(ret + len, is_whole || room == 0 ? "" : "…", is_whole || room == 0 ? 1 : sizeof "…");
    return ret;
}

const char *svg_text_line(const char *text, unsigned room, char ret[SVG_TEXT_MAX])
{
    size_t len = prefix_len(text, room);
    if (text[len] != '\0') {
        size_t at = len;
        while (at > 0 && text[at] != ' ') {
            at--;
        }
        len = at > 0 ? at : len;
    }
    memcpy(ret, text, len);
    ret[len] = '\0';
    return text + len + (text[len] == ' ');
}

// `digits` of them, as far as they are whole nanoseconds.
static const char *time_format(duration_ns time, unsigned digits, char ret[SVG_TIME_MAX])
{
    static const struct {
        duration_ns worth;
        unsigned decimals;
        const char *name;
    } units[] = {{NS_PER_S, 9, "s"}, {NS_PER_MS, 6, "ms"}, {NS_PER_US, 3, "µs"}, {1, 0, "ns"}};
    unsigned i = 0;
    while (i < 3 && time < units[i].worth) {
        i++;
    }
    duration_ns whole = time / units[i].worth, rest = time % units[i].worth;
    unsigned decimals = units[i].decimals, left = digits - 1;
    for (duration_ns tens = whole; tens >= 10 && left > 0; tens /= 10) {
        left--;
    }
    for (; decimals > left; decimals--) {
        rest /= 10;
    }
    if (time == 0) {
        snprintf(ret, SVG_TIME_MAX, "0");
    } else if (decimals == 0) {
        snprintf(ret, SVG_TIME_MAX, "%" PRIu64 " %s", whole, units[i].name);
    } else {
        snprintf(ret, SVG_TIME_MAX, "%" PRIu64 ".%0*" PRIu64 " %s", whole, (int)decimals, rest,
                 units[i].name);
    }
    return ret;
}

const char *svg_text_time(duration_ns time, char ret[SVG_TIME_MAX])
{
    return time_format(time, 3, ret);
}

const char *svg_text_time_finely(duration_ns time, char ret[SVG_TIME_MAX])
{
    return time_format(time, 5, ret);
}
