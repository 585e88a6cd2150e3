// All that is known of one subject, as lines of text: for its page on the screen.
#pragma once

#include <stdbool.h>

#include "cli/top/model.h"

// `is_head`: what follows belongs to it. `text` is valid during the call only.
typedef void top_line(void *ctx, bool is_head, const char *text);

void top_detail(const struct top_subject *s, unsigned width, top_line *each, void *ctx);
