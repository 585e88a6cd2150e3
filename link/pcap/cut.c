#include "link/pcap/cut.h"

#include <string.h>

#include "base/bytes.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void begin_fpdu(struct pcap_cut *c)
{
    c->phase = PCAP_CUT_FPDU_LENGTH;
    c->head_len = 0;
}

static size_t over_frame_header(struct pcap_cut *c, struct span in, bool *ret_end)
{
    size_t take = smaller(MPA_STARTUP_HEADER_LEN - c->head_len, in.len);
    memcpy(c->head + c->head_len, in.ptr, take);
    c->head_len += take;
    if (c->head_len == MPA_STARTUP_HEADER_LEN) {
        bool is_mpa = memcmp(c->head, "MPA ID Re", 9) == 0;
        c->left = get_be16(c->head + MPA_OFF_PD_LEN);
        c->phase = is_mpa ? PCAP_CUT_FRAME : PCAP_CUT_UNKNOWN;
        *ret_end = !is_mpa || c->left == 0;
        if (*ret_end && is_mpa) {
            begin_fpdu(c);
        }
    }
    return take;
}

static size_t over_frame(struct pcap_cut *c, struct span in, bool *ret_end)
{
    size_t take = smaller(c->left, in.len);
    c->left -= take;
    if (c->left == 0) {
        *ret_end = true;
        begin_fpdu(c);
    }
    return take;
}

// A marker belongs to the FPDU in which it lies, or to the next one.
static size_t over_marker(struct pcap_cut *c, struct span in)
{
    size_t in_interval = c->position % MPA_MARKER_INTERVAL;
    return in_interval < MPA_MARKER_LEN ? smaller(MPA_MARKER_LEN - in_interval, in.len) : 0;
}

static size_t over_length(struct pcap_cut *c, struct span in)
{
    c->head[c->head_len++] = in.ptr[0];
    if (c->head_len == MPA_LENGTH_LEN) {
        size_t ulpdu_len = get_be16(c->head);
        if (c->position + 1 == MPA_LENGTH_LEN && ulpdu_len == 0) {
            c->has_markers = true; // and this was the first half of the first one
            c->head_len = 0;
        } else {
            c->left = mpa_fpdu_len(ulpdu_len) - MPA_LENGTH_LEN;
            c->phase = PCAP_CUT_FPDU;
        }
    }
    return 1;
}

static size_t over_fpdu(struct pcap_cut *c, struct span in, bool *ret_end)
{
    size_t take = smaller(c->left, in.len);
    if (c->has_markers) {
        take = smaller(take, MPA_MARKER_INTERVAL - c->position % MPA_MARKER_INTERVAL);
    }
    c->left -= take;
    if (c->left == 0) {
        *ret_end = true;
        begin_fpdu(c);
    }
    return take;
}

static size_t over_full_operation(struct pcap_cut *c, struct span in, bool *ret_end)
{
    size_t take = c->has_markers ? over_marker(c, in) : 0;
    if (take == 0 && c->phase == PCAP_CUT_FPDU_LENGTH) {
        take = over_length(c, in);
    } else if (take == 0) {
        take = over_fpdu(c, in, ret_end);
    }
    c->position += take;
    return take;
}

size_t pcap_cut_next(struct pcap_cut *c, struct span in, bool *ret_end)
{
    size_t done = 0;
    *ret_end = false;
    while (done < in.len && !*ret_end) {
        struct span rest = span_skip(in, done);
        switch (c->phase) {
        case PCAP_CUT_FRAME_HEADER:
            done += over_frame_header(c, rest, ret_end);
            break;
        case PCAP_CUT_FRAME:
            done += over_frame(c, rest, ret_end);
            break;
        case PCAP_CUT_FPDU_LENGTH:
        case PCAP_CUT_FPDU:
            done += over_full_operation(c, rest, ret_end);
            break;
        case PCAP_CUT_UNKNOWN:
            *ret_end = true;
            return in.len;
        }
    }
    return done;
}
