#include "node/host/found.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/host/config.h"
#include "node/host/wish.h"
#include "node/interface/request.h"

enum { LINE_MAX_LEN = 640 };

struct search {
    const struct volume_wish *wish;
    struct host_config *to;
    unsigned source;
    size_t left_out;
};

// As the pattern's volume, but for its name and device.
static void on_found(void *ctx, const struct source_found *found)
{
    struct search *search = ctx;
    struct volume_wish wish = *search->wish;
    wish.source = search->source;
    snprintf(wish.name, sizeof wish.name, "%s", found->name);
    snprintf(wish.uri, sizeof wish.uri, "%s", found->uri);
    wish_name_settle(search->to->volumes, search->to->volume_count, &wish);
    bool has_room = search->to->volume_count < NODE_VOLUME_COUNT_MAX;
    search->left_out += !has_room || config_volume_add(search->to, &wish) != 0;
}

int host_found_add(struct host_config *to, const struct volume_wish *wish, struct sources *sources,
                   void (*say)(void *ctx, const char *line), void *ctx)
{
    if (!sources_is(wish->uri)) {
        return config_volume_add(to, wish);
    }
    struct search search = {.wish = wish, .to = to, .source = sources_want(sources, wish->uri)};
    if (search.source == 0) {
        return -ENOMEM;
    }
    search.left_out += sources_each(sources, search.source, on_found, &search);
    if (search.left_out > 0) {
        char line[LINE_MAX_LEN];
        snprintf(line, sizeof line,
                 "%.255s: %zu volumes are not served: they are too many, or their names too long",
                 sources_uri(sources, search.source), search.left_out);
        say(ctx, line);
    }
    return 0;
}
