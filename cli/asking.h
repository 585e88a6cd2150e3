// What the commands that ask running processes share: which ones, and what is said of
// those that do not answer (answer.h has one of them).
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct json_object;
struct process;

struct question {
    const char *request; // one line, for host/control.h or node/host/control.h
    const char *what;    // there is none of, when a process does not answer: "no counters"
};

// Asks these processes, or all of the caller's when `pid_count` is 0, and adds what they answer, an
// object or more of each, to the JSON array. EXIT_SUCCESS, or EXIT_FAILED after saying what is
// wrong with some.
int asking_collect(const struct question *question, struct json_object *array, const pid_t *pids,
                   size_t pid_count);

// The same of these processes; who has ended meanwhile is passed over.
int asking_add(const struct question *question, struct json_object *array,
               const struct process *processes, size_t count);

// Says, where nobody was named, that there is nobody.
void asking_say_nobody(void);

// 0 and a process id per word, or EXIT_USAGE after saying which word is none.
int asking_pids(const char *command, char **words, size_t count, pid_t *ret_pids);
// The same into memory for as many, which the caller frees; or EXIT_FAILED after saying that there
// is none, and NULL in both cases.
int asking_pids_create(const char *command, char **words, size_t count, pid_t **ret_pids);
