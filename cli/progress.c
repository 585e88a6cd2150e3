#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock/clock.h"
#include "text/quantity.h"

enum { BAR_LEN = 30 };

static const double every_s = 0.1;

static double now_s(void)
{
    return 1e-9 * (double)clock_now();
}

bool progress_is_wanted(void)
{
    return isatty(STDERR_FILENO) == 1;
}

void progress_begin(struct progress *progress, const char *word)
{
    *progress = (struct progress){.word = word, .started_at_s = now_s()};
}

void progress_show(struct progress *progress, uint64_t done, uint64_t all)
{
    static const char full[] = "##############################";
    char size[TEXT_SIZE_MAX];
    double now = now_s(), since = now - progress->started_at_s;
    if (now - progress->shown_at_s < every_s || all == 0 || !progress_is_wanted()) {
        return;
    }
    double rate = since > 0 ? (double)done / since : 0;
    progress->shown_at_s = now;
    progress->is_shown = true;
    if (all == UINT64_MAX) {
        fprintf(stderr, "\r%s %s, %.0f MB/s \033[K", progress->word, text_size_format(done, size),
                rate / 1e6);
        fflush(stderr);
        return;
    }
    double share = (double)done / (double)all;
    double left_s = rate > 0 ? (double)(all - done) / rate : 0;
    int filled = (int)(share * BAR_LEN);
    fprintf(stderr, "\r%s [%.*s%*s] %3.0f %% of %s, %.0f MB/s, %.0f s left \033[K", progress->word,
            filled, full, BAR_LEN - filled, "", 100 * share, text_size_format(all, size),
            rate / 1e6, left_s);
    fflush(stderr);
}

double progress_end(struct progress *progress)
{
    if (progress->is_shown) {
        fputs("\r\033[K", stderr);
    }
    return now_s() - progress->started_at_s;
}
