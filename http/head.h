// What a request may look like, before its path is looked up: each refusal has a status, a sentence
// and a counter of its own.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_FIELD_MAX = 64 };

enum http_verdict {
    HTTP_MAY_BE_ANSWERED,
    HTTP_TOO_MANY_FIELDS,
    HTTP_NO_SUCH_METHOD,
    HTTP_HAS_BODY,
    HTTP_NO_HOST,
    HTTP_FOREIGN_HOST,
    HTTP_NO_SUCH_PATH, // said by who has the paths
    HTTP_VERDICT_COUNT
};

struct http_head {
    const char *method;
    bool is_1_0; // HTTP/1.0, which need not name a host
    size_t field_count;
    size_t host_count; // fields named Host
    const char *host;  // the first of them, or what the target names; NULL: neither
    size_t host_len;
    bool has_body; // a length that is not 0, or a transfer coding
};

// What is asked for (RFC 9112, section 3.2): "/path", or "http://host/path", as a proxy is asked,
// whose host counts in place of the field's.
struct http_target {
    const char *path;
    const char *host; // NULL: it names none
    size_t host_len;
};
struct http_target http_target_split(const char *text);

enum http_verdict http_head_judge(const struct http_head *head, bool is_on_loopback);

struct http_refusal {
    unsigned status;
    const char *name; // of the counter
    const char *text; // a line, for who asked
};
extern const struct http_refusal http_refusals[HTTP_VERDICT_COUNT];
