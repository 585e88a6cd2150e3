// Whose the abstract names are by which processes of a user share a port (share.h). Any user of the
// network namespace may take any of them, or all.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DATAGRAM_NAME_LEN = 108 }; // with its end, as of struct sockaddr_un

// Is there a socket of another user's whose name is `name`, or with `is_prefix` begins so? Its
// name, and the user. False also where the system does not tell (sock_diag(7), Linux 5.3).
bool datagram_names_stranger(const char *name, bool is_prefix, char ret_name[DATAGRAM_NAME_LEN],
                             unsigned *ret_uid);
