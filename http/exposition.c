#include "http/exposition.h"

#include <inttypes.h>
#include <stdint.h>

#include "base/time.h"
#include "text/show.h"

void exposition_family(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP weft_%s %s\n# TYPE weft_%s %s\n", name, help, name, type);
}

// What is no printable ASCII cannot be told from a trick, and the format escapes three octets.
const char *exposition_label(const char *text, char *ret, size_t capacity)
{
    size_t len = 0;
    for (; *text != '\0' && len + 2 < capacity; text++) {
        if (*text == '\\' || *text == '"') {
            ret[len++] = '\\';
        }
        ret[len++] = text_ascii_char(*text);
    }
    ret[len] = '\0';
    return ret;
}

void exposition_histogram(FILE *out, const char *name, const char *labels,
                          const struct histogram *h)
{
    enum { BOUND_FIRST_LOG2 = 10, BOUND_LAST_LOG2 = 35 }; // a microsecond, half a minute
    for (unsigned n = BOUND_FIRST_LOG2; n <= BOUND_LAST_LOG2; n++) {
        const uint64_t bound = (UINT64_C(1) << n) - 1;
        fprintf(out, "weft_%s_bucket{%s,le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n", name,
                labels, bound / NS_PER_S, bound % NS_PER_S, histogram_count_to(h, bound));
    }
    fprintf(out, "weft_%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, h->count);
    fprintf(out, "weft_%s_sum{%s} %" PRIu64 ".%09" PRIu64 "\n", name, labels, h->sum / NS_PER_S,
            h->sum % NS_PER_S);
    fprintf(out, "weft_%s_count{%s} %" PRIu64 "\n", name, labels, h->count);
}
