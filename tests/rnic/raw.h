// A peer that is a plain TCP socket: it says what a test wants, right or wrong. Blocking, with the
// patience of tests/rnic/device.h.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/mpa.h"
#include "wire/terminate.h"

int raw_connect(const struct sockaddr_in *to);
int raw_listen(struct sockaddr_in *ret_addr); // a free port of 127.0.0.1
int raw_accept(int listen_fd);
void raw_send(int fd, const void *octets, size_t len); // the device may have closed: not an error
void raw_finish(int fd);                               // FIN
void raw_reset(int fd);                                // RST, and closes
bool raw_receive(int fd, void *octets, size_t len);    // all of it; false: it ended before

// Reads until the device closes. What came is thrown away, but for a Terminate at its end.
// TERM_NONE: none came. `*ret_has_octets`: anything came (may be NULL).
enum terminate_cause raw_read_end(int fd, bool *ret_has_octets);

// A good start-up frame: revision 2, enhanced, CRC, IRD and ORD of 2.
size_t raw_frame(enum mpa_frame_kind kind, uint8_t *buf);
// The other side's frame, whatever it says.
bool raw_receive_frame(int fd);

// Makes FPDUs: with room for MPA_FPDU_MAX_LEN octets in `buf`. Returns the length.
size_t raw_fpdu(uint8_t *buf, const void *ulpdu, size_t ulpdu_len);
void raw_send_fpdu(int fd, const void *ulpdu, size_t ulpdu_len);
