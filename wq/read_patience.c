#include "wq/read_patience.h"

void read_patience_restart(struct read_patience *p, instant_ns now)
{
    *p = (struct read_patience){.since_ns = now};
}

void read_patience_on_progress(struct read_patience *p, uint64_t len, instant_ns now)
{
    p->gained_len += len;
    if (p->gained_len >= READ_PROGRESS_LEN) {
        read_patience_restart(p, now);
    }
}

void read_patience_on_other(struct read_patience *p, uint64_t len, bool is_last, instant_ns now)
{
    p->overtaking_len += len;
    if (p->overtaking_len >= READ_PROGRESS_LEN && p->overtaking_count < READ_OVERTAKING_MAX) {
        p->since_ns = now;
        p->overtaking_len = 0;
        p->has_overtaken = true;
    }
    if (is_last) {
        p->overtaking_len = 0;
        p->overtaking_count += p->has_overtaken;
        p->has_overtaken = false;
    }
}
