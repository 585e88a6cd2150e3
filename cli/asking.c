#include "cli/asking.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/say.h"
#include "control/find.h"
#include "text/quantity.h"

enum { PID_TEXT_LEN = 48, PID_MAX = 1 << 30 };

/* ---- one process ----------------------------------------------------------------------------- */

/* ---- which processes ------------------------------------------------------------------------- */

int asking_add(const struct question *q, struct json_object *array, const struct process *processes,
               size_t count)
{
    int result = EXIT_SUCCESS;
    for (size_t i = 0; i < count; i++) {
        int error = answers_get(&processes[i], q->request, array);
        if (error != 0 && error != -ECONNREFUSED) {
            answer_say_failed(&processes[i], q->what, error);
            result = EXIT_FAILED;
        }
    }
    return result;
}

static void say_unknown(const char *what, pid_t pid)
{
    char object[PID_TEXT_LEN];
    snprintf(object, sizeof object, "process %d", (int)pid);
    if (kill(pid, 0) != 0 && errno == ESRCH) {
        say_error(what, object, "weft stat without a PID lists those there are",
                  "there is no such process");
    } else {
        say_error(what, object, "start it with weft run; inside a container: run weft stat there",
                  "it has not used weft's device so far, or is in another network namespace");
    }
}

static int pid_add(const struct question *q, struct json_object *array, pid_t pid,
                   const struct process *all, size_t count)
{
    const struct process *process = processes_at(all, count, pid);
    if (process == NULL) {
        say_unknown(q->what, pid);
        return EXIT_FAILED;
    }
    int error = answers_get(process, q->request, array);
    if (error != 0) {
        answer_say_failed(process, q->what, error);
    }
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}

int asking_collect(const struct question *q, struct json_object *array, const pid_t *pids,
                   size_t pid_count)
{
    struct process *all = NULL;
    size_t count = 0;
    int error = processes_find(PROCESS_DEVICE, &all, &count);
    if (error != 0) {
        say_error(q->what, "/proc/net/unix", "mount /proc", "%s", strerror(-error));
        return EXIT_FAILED;
    }
    int result = EXIT_SUCCESS;
    if (pid_count == 0) {
        result = asking_add(q, array, all, processes_keep_own(all, count));
    }
    for (size_t i = 0; i < pid_count; i++) {
        if (pid_add(q, array, pids[i], all, count) != EXIT_SUCCESS) {
            result = EXIT_FAILED;
        }
    }
    free(all);
    return result;
}

void asking_say_nobody(void)
{
    puts("No program uses weft's device now. Start one with: weft run PROGRAM");
}

/* ---- words of the command line --------------------------------------------------------------- */

int asking_pids(const char *command, char **words, size_t count, pid_t *ret_pids)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t pid;
        if (!text_number_parse(words[i], 1, PID_MAX, &pid)) {
            return say_usage(command, "%s is not a process id", words[i]);
        }
        ret_pids[i] = (pid_t)pid;
    }
    return 0;
}

int asking_pids_create(const char *command, char **words, size_t count, pid_t **ret_pids)
{
    *ret_pids = calloc(count + 1, sizeof **ret_pids);
    if (*ret_pids == NULL) {
        say_error("no processes", "this process", "free some memory", "no memory");
        return EXIT_FAILED;
    }
    int result = asking_pids(command, words, count, *ret_pids);
    if (result != 0) {
        free(*ret_pids);
        *ret_pids = NULL;
    }
    return result;
}
