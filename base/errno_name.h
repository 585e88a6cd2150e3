// What an error is called in <errno.h>, for traces: glibc says it since 2.32 only.
#pragma once

// "EAGAIN"; of two names for one number, glibc's; "unknown" for a number that is none.
const char *errno_name(int error);
