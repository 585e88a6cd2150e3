// Asks a running process of weft; its server is host/control.h or node/host/control.h. A request is
// one line, the answer is all that comes until the end of the stream.
#pragma once

#include "control/process.h"

// Sends a request, one line with its end. 0 and the answer, which the caller frees; or
//     -ECONNREFUSED  it has ended meanwhile
//     -EACCES        it does not answer this user, or is not the user's it claims to be
//     -ETIMEDOUT     no whole answer came in time
//     -EMSGSIZE      the answer is longer than any of weft's
// or another negative errno.
int process_ask(const struct process *process, const char *request, char **ret_text,
                size_t *ret_len);
