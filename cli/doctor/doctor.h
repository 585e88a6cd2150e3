// `weft doctor`: what programs on weft meet on this machine, and what one program would. A check
// looks at one thing and makes one finding of it; it takes nothing from running programs and leaves
// nothing behind. Each runs in a process of its own with a deadline (run.c), so that none can hang
// or end the others.
//
//     doctor.c     the command
//     run.c        the processes of the checks
//     show.c       findings on a terminal, and as JSON
//
// and a group of checks each, as a table: environment.c, program.c, limits.c, kernel.c, files.c,
// network.c, roce.c, devices.c
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/doctor/finding.h"

struct doctor_subject {
    const char *program;     // as the user names it; NULL: the machine alone
    const char *library_dir; // weft's libraries; "": they were not found
    unsigned wires;          // wanted, one bit per enum device_wire
    uint16_t roce_port;
};

// Programs have the RoCE device, or have no other.
bool doctor_wants_roce(const struct doctor_subject *subject);
bool doctor_wants_roce_alone(const struct doctor_subject *subject);

struct doctor_check {
    const char *name;  // no other check of any group has it
    const char *about; // what is looked at
    void (*look)(const struct doctor_subject *subject, struct finding *ret);
};

struct doctor_group {
    const char *name;
    const struct doctor_check *checks;
    size_t check_count;
    bool is_of_program; // left out without one
};

extern const struct doctor_group doctor_kernel, doctor_limits, doctor_network, doctor_roce,
    doctor_devices, doctor_environment, doctor_files, doctor_program;

// All checks of the machine and, if the subject has one, of the program, one finding each in the
// order of the groups.
enum { DOCTOR_CHECK_MAX = 64 };
struct doctor_report {
    size_t count;
    const struct doctor_group *groups[DOCTOR_CHECK_MAX];
    const struct doctor_check *checks[DOCTOR_CHECK_MAX];
    struct finding findings[DOCTOR_CHECK_MAX];
};

// Adds the checks of a group, without findings.
void doctor_report_add(struct doctor_report *report, const struct doctor_group *group);
// Looks at all, within two seconds. 0, or a negative errno: not all could be looked at.
int doctor_report_run(struct doctor_report *report, const struct doctor_subject *subject);
// How many findings have this result.
size_t doctor_report_tally(const struct doctor_report *report, enum finding_result result);

// The findings for people, in lines of `width` columns; `is_quiet`: warnings and failures alone.
void doctor_report_print(const struct doctor_report *report, const struct doctor_subject *subject,
                         bool is_quiet, unsigned width, bool has_color);
// The same as one JSON object; weft-doctor(1) has its shape.
void doctor_report_print_json(const struct doctor_report *report,
                              const struct doctor_subject *subject, bool is_quiet);
