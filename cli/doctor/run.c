// The processes of the checks: all at once, and what they have found by the deadline.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/device_wire.h"
#include "base/poll_ms.h"
#include "base/time.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "clock/clock.h"

static const duration_ns patience_ns = 1500 * NS_PER_MS;

// Memory that the processes share: what is not finished is not believed.
struct copy_place {
    struct finding finding;
    atomic_bool is_finished;
};

struct round {
    struct copy_place places[DOCTOR_CHECK_MAX];
    pid_t pids[DOCTOR_CHECK_MAX];
    size_t count; // of those that there are
};

bool doctor_wants_roce(const struct doctor_subject *subject)
{
    return (subject->wires & 1U << DEVICE_WIRE_ROCE) != 0;
}

bool doctor_wants_roce_alone(const struct doctor_subject *subject)
{
    return subject->wires == 1U << DEVICE_WIRE_ROCE;
}

void doctor_report_add(struct doctor_report *report, const struct doctor_group *group)
{
    for (size_t i = 0; i < group->check_count && report->count < DOCTOR_CHECK_MAX; i++) {
        report->groups[report->count] = group;
        report->checks[report->count] = &group->checks[i];
        report->count++;
    }
}

size_t doctor_report_tally(const struct doctor_report *report, enum finding_result result)
{
    size_t count = 0;
    for (size_t i = 0; i < report->count; i++) {
        count += report->findings[i].result == result;
    }
    return count;
}

/* ---- one process ----------------------------------------------------------------------------- */

// The end of `alive` that only the processes of checks have is closed with the last of them.
static void look(const struct doctor_check *check, const struct doctor_subject *subject,
                 struct copy_place *place, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        check->look(subject, &place->finding);
        atomic_store(&place->is_finished, true);
    }
    _exit(0);
}

static pid_t look_begin(const struct doctor_check *check, const struct doctor_subject *subject,
                        struct copy_place *place, const int alive[2])
{
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        close(alive[0]);
        look(check, subject, place, parent);
    }
    return pid >= 0 ? pid : -errno;
}

static void all_wait(int alive)
{
    const instant_ns end = clock_now() + patience_ns;
    struct pollfd poll_fd = {.fd = alive, .events = POLLIN};
    for (instant_ns now = clock_now(); now < end; now = clock_now()) {
        if (poll(&poll_fd, 1, poll_ms(now, end)) > 0) {
            return;
        }
    }
}

// Who sits in a call of the kernel's that cannot be interrupted is left there.
static void look_end(struct copy_place *place, pid_t pid)
{
    int status = 0;
    const bool has_ended = waitpid(pid, &status, WNOHANG) == pid;
    if (!has_ended) {
        kill(pid, SIGKILL);
    }
    if (atomic_load(&place->is_finished)) {
        return;
    }
    if (place->finding.seen[0] == '\0') {
        finding_see(&place->finding, "nothing");
    }
    if (has_ended && WIFSIGNALED(status)) {
        finding_worsen(&place->finding, FINDING_FAILURE, "the check was ended by signal %d%s",
                       WTERMSIG(status),
                       WTERMSIG(status) == SIGSYS
                           ? ": a filter of system calls (seccomp) ends who makes such a call"
                           : "");
    } else {
        finding_worsen(&place->finding, FINDING_WARNING,
                       "no answer within %d ms: the system is busy, or something hangs",
                       (int)(patience_ns / NS_PER_MS));
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static int all_begin(struct round *round, const struct doctor_report *report,
                     const struct doctor_subject *subject, const int alive[2])
{
    for (; round->count < report->count; round->count++) {
        struct copy_place *place = &round->places[round->count];
        const pid_t pid = look_begin(report->checks[round->count], subject, place, alive);
        if (pid < 0) {
            return pid;
        }
        round->pids[round->count] = pid;
    }
    return 0;
}

int doctor_report_run(struct doctor_report *report, const struct doctor_subject *subject)
{
    int alive[2];
    struct round *round =
        mmap(NULL, sizeof *round, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round == MAP_FAILED) {
        return -errno;
    }
    int error = pipe2(alive, O_CLOEXEC) != 0 ? -errno : 0;
    if (error == 0) {
        error = all_begin(round, report, subject, alive);
        close(alive[1]);
        all_wait(alive[0]);
        close(alive[0]);
    }
    for (size_t i = 0; i < round->count; i++) {
        look_end(&round->places[i], round->pids[i]);
        report->findings[i] = round->places[i].finding;
    }
    munmap(round, sizeof *round);
    return error;
}
