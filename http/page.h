// The page that a browser shows: files of http/page/, built into the program, and the JSON that its
// script asks for at /status.json:
//
//     {"command": "serve", "version": "0.1.0",
//      "time_ms": …         a clock that only goes forward, for rates
//      "processes": [{"pid": 4711, "kind": "program" or "node", "name": …, "state": "ok" …,
//                     "answers": [what `weft stat --json` or `weft status --json` tells of it]}],
//      "left_out": 0}       processes, or their answers, that there was no room for
//
// Rates and percentiles are made in the browser, of two answers: nothing is kept for who looks.
#pragma once

#include <json-c/json.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/time.h"
#include "http/door.h"

// Octets of all answers together.
enum { PAGE_ANSWERS_MAX_LEN = 16 << 20 };

extern const struct http_resource page_files[];
extern const size_t page_file_count;

// A table of the page's files and the caller's own resources; gives back how many.
size_t page_resources(const struct http_resource *own, size_t own_count,
                      struct http_resource ret[HTTP_RESOURCE_MAX]);

struct page_status {
    FILE *out;
    size_t len;
    uint64_t left_out;
    bool has_any;
};

void page_status_begin(struct page_status *status, FILE *out, const char *command, instant_ns now);
// `answers`: an array, the caller's; NULL: there are none. `name` may be a stranger's.
void page_status_put(struct page_status *status, pid_t pid, bool is_node, const char *name,
                     const char *state, struct json_object *answers);
void page_status_end(struct page_status *status, uint64_t left_out);
