// `weft top` in a terminal: keys, the screen, and the processes asked between the two.
#pragma once

#include "cli/top/round.h"

// Until the user quits, `round_count` rounds are over (0: for ever) or the terminal is gone. The
// exit status.
int top_screen_run(struct top_round *round, unsigned interval_seconds, uint64_t round_count);
