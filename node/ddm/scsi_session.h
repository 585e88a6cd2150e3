// A session with a logical unit over a network, whatever carries it: libiscsi over TCP
// (scsi_iscsi.c), or one-shot RDMA (scsi_rdma.c).
//
// **A session that is lost** loses no command. Another one is opened with the same initiator name
// and session identifier (ISID), by which the target ends the old one and its tasks (RFC 7143
// section 6.3.5); the logical unit is reset, which ends what is left of them; then the commands are
// sent again, in their order. That is the fence of a process that was killed, too. A command that
// has waited too long for a session fails.
//
// Two processes with the same ISID would end each other's session again and again. So each holds a
// local socket whose name says who the logical unit is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/scsi_transport.h"

enum { SCSI_SESSION_DEPTH = 128, SCSI_SESSION_TEXT_MAX = 256 };

enum scsi_session_state {
    SCSI_SESSION_LOST, // another one is begun at again_at_ns
    SCSI_SESSION_LOGGING_IN,
    SCSI_SESSION_RESETTING, // the logical unit
    SCSI_SESSION_UP,
};

// What has come of a reset of the logical unit.
enum scsi_reset {
    SCSI_RESET_NOT_ASKED,
    SCSI_RESET_ASKED,
    SCSI_RESET_DONE,
    SCSI_RESET_UNSUPPORTED,
    SCSI_RESET_FAILED,
};

struct scsi_session;

// What carries sessions. None of these waits for the target but `log_out`.
struct scsi_carrier {
    size_t size; // of its own struct, which begins with a scsi_session and is zeroed
    void (*init)(struct scsi_session *session);
    // Reads the URI's object, sets `address`, `user` and `secret`. 0 or a negative errno with the
    // reason.
    int (*parse)(struct scsi_session *session, const char *object, struct why *ret_why);
    // Connects and logs in: scsi_session_logged_in, or _fail, follows. 0 or -ENOMEM.
    int (*begin)(struct scsi_session *session);
    // What begin made goes: nothing reaches the data of jobs any more, and no job ends by it.
    void (*end)(struct scsi_session *session);
    // Resets the logical unit: scsi_session_reset follows. False: it cannot be asked.
    bool (*reset)(struct scsi_session *session);
    // 0; -EAGAIN: there is no room now; another negative errno: another session is tried.
    int (*send)(struct scsi_session *session, struct scsi_job *job);
    // Takes what came of these events, 0 if none is known.
    void (*service)(struct scsi_session *session, int events);
    // Before the loop waits: what it waits for stands in epoll_fd. NULL: it does already.
    void (*watch)(struct scsi_session *session);
    void (*log_out)(struct scsi_session *session); // waits for a moment
};

struct scsi_session {
    struct scsi_transport transport;
    const struct scsi_carrier *carrier;
    char initiator[SCSI_SESSION_TEXT_MAX];
    char address[2 * SCSI_SESSION_TEXT_MAX + 32];
    // For CHAP; empty: no proof is given, or the target asked for none.
    char user[SCSI_SESSION_TEXT_MAX], secret[SCSI_SESSION_TEXT_MAX];
    char target_user[SCSI_SESSION_TEXT_MAX], target_secret[SCSI_SESSION_TEXT_MAX];
    uint64_t unit; // who the logical unit is, in short: of it 40 bits make the ISID
    duration_ns answer_within_ns, patience_ns;
    int epoll_fd, lock_fd;

    enum scsi_session_state state;
    bool has_failed, has_logged_in; // what the carrier has told
    enum scsi_reset reset;          // likewise
    bool has_settled;               // up, or lost again
    bool must_reset;                // the unit, before anything is sent
    instant_ns state_since_ns, again_at_ns;
    duration_ns again_in_ns;
    struct why why;

    struct list_link out;     // jobs at the target, in order
    struct list_link waiting; // jobs for a session, or for room
};

// What the initiator is called: as wanted, or (NULL) by the machine's identity.
void scsi_session_initiator(const char *wanted, char ret[SCSI_SESSION_TEXT_MAX]);

/* ---- what a carrier tells --------------------------------------------------------------------
 *
 * It is put down here, and dealt with when the carrier's function has returned: a session is not
 * ended by who is at work in it.
 */

// The session is of no use; the first reason counts.
static inline void scsi_session_fail(struct scsi_session *session, const char *why)
{
    if (!session->has_failed) {
        why_say(&session->why, "%.*s", (int)strcspn(why, "\n"), why);
    }
    session->has_failed = true;
}

static inline void scsi_session_logged_in(struct scsi_session *session)
{
    session->has_logged_in = true;
}

static inline void scsi_session_reset(struct scsi_session *session, enum scsi_reset reset)
{
    session->reset = reset;
}

// The target has answered; the answer is in the job.
static inline void scsi_session_answered(struct scsi_session *session, struct scsi_job *job)
{
    list_remove(&job->link);
    scsi_job_end(job);
}

extern const struct scsi_carrier scsi_carrier_libiscsi, scsi_carrier_oneshot;
