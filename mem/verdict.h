// What the STag table answers. A verdict knows no protocol: ddp/ and rdmap/ each map it to their
// own Terminate codes, iwarp/ maps it to a completion status.
#pragma once

#include <stdint.h>

enum mem_verdict {
    MEM_OK,
    MEM_INVALID_STAG,      // names nothing, or a window that is not bound
    MEM_WRONG_PD,          // names an object of another protection domain
    MEM_WRONG_QP,          // names a window or a sink that belongs to another queue pair
    MEM_BOUNDS,            // the range leaves the object
    MEM_WRAP,              // the range passes the end of the 64-bit numbering
    MEM_ACCESS,            // the object, or its class, does not grant this operation
    MEM_CANNOT_INVALIDATE, // names an object that only its owner may take back
    MEM_WINDOW_STATE,      // bind of a window that is bound already, or with the key it has now
    MEM_UNMAPPED,          // on-demand region: the process has no such memory now
    MEM_LOCAL_ELEMENT,     // a sink's own scatter list is no longer usable: not the peer's error
    MEM_VERDICT_COUNT,
};

// A short lower-case phrase for traces and messages: "wrong protection domain".
const char *mem_verdict_name(enum mem_verdict verdict);
