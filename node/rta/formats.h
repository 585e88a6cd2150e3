// The I/O formats that this node speaks, each an io_format (node/rta/converter.h).
#pragma once

#include "node/rta/converter.h"

extern const struct io_format io_format_ata, io_format_scsi;

// What becomes of a command that the device did not answer, by the driver's errno.
enum node_completion io_format_unanswered(int error);
