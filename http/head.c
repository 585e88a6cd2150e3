#include "http/head.h"

#include <string.h>
#include <strings.h>

#include "http/host_header.h"

const struct http_refusal http_refusals[HTTP_VERDICT_COUNT] = {
    [HTTP_TOO_MANY_FIELDS] = {431, "fields", "weft: more header fields than 64; send fewer\n"},
    [HTTP_NO_SUCH_METHOD] = {405, "method", "weft: nothing can be changed here; use GET or HEAD\n"},
    [HTTP_HAS_BODY] = {413, "body", "weft: a request here has no body; send none\n"},
    [HTTP_NO_HOST] = {400, "no host", "weft: one field Host is needed; send it once\n"},
    [HTTP_FOREIGN_HOST] =
        {421, "foreign host",
         "weft: the host asked for is not this one, though the address is; ask for "
         "localhost, or for the address as a number\n"},
    [HTTP_NO_SUCH_PATH] = {404, "path", "weft: there is nothing at this path; start at /\n"},
};

struct http_target http_target_split(const char *text)
{
    static const char scheme[] = "http://";
    const size_t scheme_len = sizeof scheme - 1;
    if (strncasecmp(text, scheme, scheme_len) != 0) {
        return (struct http_target){.path = text};
    }
    const char *host = text + scheme_len;
    const size_t host_len = strcspn(host, "/");
    const char *path = host + host_len;
    return (struct http_target){
        .path = *path != '\0' ? path : "/", .host = host, .host_len = host_len};
}

enum http_verdict http_head_judge(const struct http_head *head, bool is_on_loopback)
{
    if (head->field_count > HTTP_FIELD_MAX) {
        return HTTP_TOO_MANY_FIELDS;
    }
    if (strcmp(head->method, "GET") != 0 && strcmp(head->method, "HEAD") != 0) {
        return HTTP_NO_SUCH_METHOD;
    }
    if (head->has_body) {
        return HTTP_HAS_BODY;
    }
    if (head->host_count > 1 || (head->host_count == 0 && !head->is_1_0)) {
        return HTTP_NO_HOST;
    }
    if (is_on_loopback && head->host != NULL &&
        !http_host_is_loopback(head->host, head->host_len)) {
        return HTTP_FOREIGN_HOST;
    }
    return HTTP_MAY_BE_ANSWERED;
}
