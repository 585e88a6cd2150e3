#include "cli/draw_list.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "draw/frame.h"
#include "draw/svg_text.h"
#include "text/quantity.h"

static duration_ns duration_of(const struct registry_connection *c)
{
    return c->last > c->first ? c->last - c->first : 0;
}

static void end_format(const struct registry_connection *c, unsigned side,
                       char ret[FRAME_END_TEXT_MAX + 16])
{
    frame_end_format(&c->end[side], ret);
    if (c->wire != REGISTRY_IWARP) {
        snprintf(strrchr(ret, ':'), 16, " QP %" PRIx32, c->qp[side]);
    }
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_connection(const struct registry_connection *c, bool is_chosen)
{
    char from[FRAME_END_TEXT_MAX + 16], to[FRAME_END_TEXT_MAX + 16];
    char size[TEXT_SIZE_MAX], time[SVG_TIME_MAX];
    end_format(c, c->initiator, from);
    end_format(c, 1 - c->initiator, to);
    printf("%c%5" PRIu32 "  %-8s %-28s %-28s %9" PRIu64 " %9s %10s%s\n", is_chosen ? '*' : ' ',
           c->number, registry_wire_name(c->wire), from, to, c->packet_count,
           text_size_format(c->payload_len, size), svg_text_time(duration_of(c), time),
           c->has_start || c->wire == REGISTRY_UD ? "" : "  (begun before the capture)");
}

static void print_table(const struct registry *r)
{
    uint32_t choice = registry_choice(r);
    if (r->number_count == 0) {
        return;
    }
    printf("%6s  %-8s %-28s %-28s %9s %9s %10s\n", "number", "wire", "initiator", "responder",
           "packets", "octets", "for");
    for (uint32_t i = 0; i < r->connection_count; i++) {
        const struct registry_connection *c = &r->connection[i];
        if (c->number != 0) {
            print_connection(c, c->number == choice);
        }
    }
    puts("*: drawn unless --connection says otherwise");
}

/* ---- for programs ---------------------------------------------------------------------------- */

static struct json_object *connection_json(const struct registry_connection *c)
{
    struct json_object *o = json_object_new_object();
    char text[FRAME_END_TEXT_MAX];
    json_object_object_add(o, "number", json_object_new_uint64(c->number));
    json_object_object_add(o, "wire", json_object_new_string(registry_wire_name(c->wire)));
    for (unsigned i = 0; i < 2; i++) {
        unsigned side = c->initiator ^ i;
        json_object_object_add(o, i == 0 ? "initiator" : "responder",
                               json_object_new_string(frame_end_format(&c->end[side], text)));
        if (c->wire != REGISTRY_IWARP) {
            json_object_object_add(o, i == 0 ? "initiator_qp_num" : "responder_qp_num",
                                   json_object_new_uint64(c->qp[side]));
        }
    }
    json_object_object_add(o, "packets", json_object_new_uint64(c->packet_count));
    json_object_object_add(o, "octets", json_object_new_uint64(c->payload_len));
    json_object_object_add(o, "first_packet", json_object_new_uint64(c->first_packet));
    json_object_object_add(o, "first_ns", json_object_new_uint64(c->first));
    json_object_object_add(o, "duration_ns", json_object_new_uint64(duration_of(c)));
    json_object_object_add(o, "has_start", json_object_new_boolean(c->has_start));
    return o;
}

static bool print_json(const struct registry *r, const struct draw_file *file)
{
    struct json_object *all = json_object_new_object(), *list = json_object_new_array();
    if (all == NULL || list == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < r->connection_count; i++) {
        if (r->connection[i].number != 0) {
            json_object_array_add(list, connection_json(&r->connection[i]));
        }
    }
    json_object_object_add(all, "packets", json_object_new_uint64(file->capture.packet_count));
    json_object_object_add(all, "unread", json_object_new_uint64(file->unread_count));
    json_object_object_add(all, "is_cut", json_object_new_boolean(file->is_cut));
    json_object_object_add(all, "choice", json_object_new_uint64(registry_choice(r)));
    json_object_object_add(all, "connections", list);
    puts(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                 JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(all);
    return true;
}

bool draw_list_print(const struct registry *r, const struct draw_file *file, bool is_json)
{
    if (is_json) {
        return print_json(r, file);
    }
    print_table(r);
    return true;
}
