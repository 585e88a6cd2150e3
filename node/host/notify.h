// What the node tells the service manager that started it, by the protocol of sd_notify(3): a
// datagram to the socket that NOTIFY_SOCKET names. Without that, nothing.
#pragma once

// `state`: lines NAME=VALUE, as "READY=1\nSTATUS=serving". Who does not listen is not waited for.
void notify_send(const char *state);
