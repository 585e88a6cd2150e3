#include "rnic/stat.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/span.h"
#include "link/own_file.h"
#include "link/sys.h"
#include "report/report.h"
#include "rnic/snapshot.h"

void stat_write(struct rnic *rnic, FILE *out)
{
    struct report report;
    if (snapshot_take(rnic, &report) == 0) {
        report_write(&report, out);
        report_fini(&report);
    }
}

void stat_write_reads(struct rnic *rnic, FILE *out)
{
    struct report report;
    if (snapshot_take(rnic, &report) == 0) {
        report_write_reads(&report, out);
        report_fini(&report);
    }
}

// As report_write begins.
static bool is_of_counters(struct span head)
{
    static const char begin[] = "{\"pid\":";
    return head.len >= sizeof begin - 1 && memcmp(head.ptr, begin, sizeof begin - 1) == 0;
}

void stat_write_file(struct rnic *const *rnics, unsigned count, const char *path)
{
    char name[512] = "";
    const char *mark = strstr(path, "%p");
    if (mark != NULL) {
        snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - path), path, (int)getpid(), mark + 2);
    } else {
        snprintf(name, sizeof name, "%s", path);
    }
    int fd = own_file_open(name, 0, is_of_counters);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL) {
        fprintf(stderr, "weft: cannot write the counters to %s (WEFT_STATS_FILE): %s\n", name,
                own_file_error(fd < 0 ? fd : -errno));
        return;
    }
    sys_ftruncate(fd, 0); // behind the look at whose it is; a pipe or device has no length
    for (unsigned i = 0; i < count; i++) {
        stat_write(rnics[i], out);
    }
    fclose(out);
}
