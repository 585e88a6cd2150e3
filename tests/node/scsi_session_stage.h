// Who has a session with a logical unit (node/ddm/scsi_transport.h), whatever carries it: jobs of
// his, what he is told, and a clock that is the test's.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/scsi_transport.h"
#include "node/interface/rta_ddm.h"

enum { SAID_MAX = 4096, LOOKS_MAX = 5000, JOB_MAX = 200, JOB_UNDER_WAY = 77 };

static instant_ns now;
static duration_ns step; // each look at the clock
static unsigned look_count;
static char said[SAID_MAX], ended[SAID_MAX];
static struct scsi_transport *transport;
static struct why why;
static struct scsi_job jobs[JOB_MAX];
static struct list_link done; // jobs that have ended, and are not noted yet

static inline void stage_reset(void)
{
    now = 1000 * NS_PER_S;
    step = 100 * NS_PER_MS;
    look_count = 0;
    said[0] = ended[0] = '\0';
    list_init(&done);
}

static inline instant_ns clock_of_test(void *ctx)
{
    assert_true(++look_count < LOOKS_MAX); // nobody waits for ever
    now += step;
    return now;
}

static inline void say(void *ctx, const char *line)
{
    size_t len = strlen(said);
    snprintf(said + len, sizeof said - len, "%s\n", line);
}

// At a unit's URI, behind the scheme; with one parameter beside the initiator's name (NULL: none).
static inline int open_at(const struct scsi_transport_kind *kind, const char *object,
                          bool is_restart, struct ddm_parameter parameter)
{
    char initiator[64];
    snprintf(initiator, sizeof initiator, "iqn.test-%d", (int)getpid());
    const struct ddm_parameter parameters[] = {{"initiator", initiator}, parameter};
    const struct ddm_target at = {.object = object,
                                  .parameters = parameters,
                                  .parameter_count = parameter.key != NULL ? 2 : 1};
    const struct ddm_host host = {.clock = clock_of_test, .say = say, .is_restart = is_restart};
    why = (struct why){""};
    return kind->open(&at, &host, &transport, &why);
}

static inline void ended_note(void)
{
    for (struct list_link *l; (l = list_pop_head(&done)) != NULL;) {
        const struct scsi_job *job = LIST_ENTRY(l, struct scsi_job, link);
        size_t len = strlen(ended);
        snprintf(ended + len, sizeof ended - len, "%u:%d ", job->cdb[1], job->error);
    }
}

static inline struct scsi_job *submit(uint8_t number)
{
    struct scsi_job *job = &jobs[number];
    *job = (struct scsi_job){.cdb = {0x28, number}, .error = JOB_UNDER_WAY, .ended = &done};
    list_init(&job->link);
    transport->kind->submit(transport, job);
    return job;
}

static inline void polled_at(instant_ns at)
{
    now = at;
    transport->kind->poll(transport, now);
    ended_note();
}
