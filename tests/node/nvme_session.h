// A session of an NVMe host on the controllers' stage.
#pragma once

#include "tests/node/nvme_stage.h"

enum {
    ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES,
    NO_ANSWER = 0xffff,
};

// A session of one I/O queue.
struct session {
    struct stage *stage;
    struct line *admin, *io;
    uint16_t cntlid;
};

static inline struct session session_on(struct stage *s, const char *host)
{
    struct session session = {.stage = s};
    session.admin = admin_open(s, host, 0, &session.cntlid);
    session.io = line_open(s);
    assert_int_equal(line_connect(session.io, host, 1, session.cntlid, 0).status, NVME_OK);
    return session;
}

static inline void session_leave(struct session *session)
{
    line_end(session->io);
    line_end(session->admin);
}
