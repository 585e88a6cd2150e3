// What a check of `weft doctor` has found: what there is, and where that is not as it should be,
// why it matters to who uses weft, and the one line that cures it. Plain data without pointers,
// since it crosses from the process of a check to that of the command.
#pragma once

#include <stdbool.h>

#include "cli/objection.h"

enum finding_result {
    FINDING_OK,
    FINDING_NOTE,    // worth knowing; programs on weft do not suffer
    FINDING_WARNING, // they run, but slower, or not all of them
    FINDING_FAILURE, // it is in their way
    FINDING_RESULT_COUNT,
};

enum { FINDING_SEEN_MAX = 256, FINDING_WHY_MAX = 320, FINDING_CURE_MAX = 256 };

// All zero: nothing has been seen yet, and all is well.
struct finding {
    enum finding_result result;
    char seen[FINDING_SEEN_MAX];
    char why[FINDING_WHY_MAX];   // empty with FINDING_OK
    char cure[FINDING_CURE_MAX]; // one line, a command where there is one; empty: there is none
};

// "ok", "note", "warning", "failure".
const char *finding_result_name(enum finding_result result);

// What there is, in place of what was said before.
void finding_see(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// More of it, behind what was said and a comma.
void finding_see_more(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The result, and why, unless one as bad is there already: the worst and first counts. True: it
// counts, and a cure may follow.
bool finding_worsen(struct finding *finding, enum finding_result result, const char *why, ...)
    __attribute__((format(printf, 3, 4)));
// "sudo " in front of a command that root alone may use; "" for root, in whose container sudo may
// well be missing.
const char *finding_sudo(void);
void finding_cure(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Makes failures of objections, or notes of those that are worth knowing alone; the finding is to
// live as long as the hearer.
struct hearer finding_hearer(struct finding *finding);
