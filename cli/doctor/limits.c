// Checks of what the system grants a process.

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/kernel_file.h"
#include "text/quantity.h"

/* ---- descriptors ----------------------------------------------------------------------------- */

// A device takes some 10, that of RoCE some 20 and one per process that shares its port.
enum { DESCRIPTORS_NEEDED = 32, DESCRIPTORS_WANTED = 256 };

static void descriptors_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    const uintmax_t soft = limit.rlim_cur, hard = limit.rlim_max;
    if (limit.rlim_cur == RLIM_INFINITY) {
        finding_see(ret, "no limit");
        return;
    }
    finding_see(ret, "%" PRIuMAX " per process", soft);
    const uintmax_t better = hard > 4096 ? 4096 : hard;
    bool is_low = false;
    if (soft < DESCRIPTORS_NEEDED) {
        is_low = finding_worsen(ret, FINDING_FAILURE,
                                "a device does not come up with less than %d beside the program's "
                                "own",
                                DESCRIPTORS_NEEDED);
    } else if (soft < DESCRIPTORS_WANTED) {
        is_low = finding_worsen(ret, FINDING_WARNING,
                                "each connection of %s takes one, and only half of them are for "
                                "peers that have said nothing yet",
                                "weft0");
    }
    if (is_low && better > soft) {
        finding_cure(ret, "ulimit -n %" PRIuMAX, better);
    } else if (is_low) {
        finding_cure(ret, "%sprlimit --pid $$ --nofile=4096:65536", finding_sudo());
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *thread_run(void *ctx)
{
    return ctx;
}

static void threads_look(const struct doctor_subject *subject, struct finding *ret)
{
    pthread_t thread;
    struct rlimit limit;
    const int error = pthread_create(&thread, NULL, thread_run, NULL);
    if (error == 0) {
        pthread_join(thread, NULL);
        finding_see(ret, "may be started");
        return;
    }
    finding_see(ret, "refused: %s", strerror(error));
    if (finding_worsen(ret, FINDING_FAILURE, "each device has a thread of its own")) {
        const bool is_limited =
            getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        finding_cure(ret, is_limited ? "ulimit -u unlimited" : "docker run --pids-limit=-1 …");
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void locked_memory_look(const struct doctor_subject *subject, struct finding *ret)
{
    char size[TEXT_SIZE_MAX];
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        finding_see(ret, "no limit, and none matters: weft pins nothing");
        return;
    }
    finding_see(ret, "%s, which does not matter: weft pins nothing",
                text_size_format(limit.rlim_cur, size));
}

static void huge_pages_look(const struct doctor_subject *subject, struct finding *ret)
{
    char transparent[64] = "";
    int64_t reserved = 0;
    kernel_file_number("/proc/sys/vm/nr_hugepages", &reserved);
    finding_see(ret, "weft needs none; %" PRId64 " reserved for programs", reserved);
    if (kernel_file_line("/sys/kernel/mm/transparent_hugepage/enabled", transparent,
                         sizeof transparent)) {
        const char *chosen = strchr(transparent, '[');
        const size_t len = chosen != NULL ? strcspn(chosen + 1, "]") : 0;
        finding_see_more(ret, "transparent ones: %.*s", (int)len, len > 0 ? chosen + 1 : "");
    }
}

static const struct doctor_check checks[] = {
    {"descriptors", "how many files a process may have open (RLIMIT_NOFILE)", descriptors_look},
    {"threads", "whether a thread can be started", threads_look},
    {"memlock", "how much memory may be locked (RLIMIT_MEMLOCK)", locked_memory_look},
    {"hugepages", "huge pages of the system", huge_pages_look},
};

const struct doctor_group doctor_limits = {"Limits", checks, sizeof checks / sizeof checks[0],
                                           false};
