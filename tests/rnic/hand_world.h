// A device on a link that the test works by hand, on time that it makes pass: each case says what
// comes and sees what leaves, octet by octet. The peer is what the test writes.
#pragma once

#include "tests/rnic/device.h"
#include "tests/rnic/hand_link.h"
#include "wire/mpa.h"

struct hand_world {
    instant_ns now;
    struct hand_link *link;
    struct device device;
    struct end listener, end; // its stream is the link's first; `end` has a queue pair
};
extern struct hand_world hand;

// As device_config, but that no peer speaks first, and no CRC is asked for: frames say it.
struct rnic_config hand_config(void);
void hand_open(const struct rnic_config *config, unsigned facts, int backlog);
void hand_close(void);
int hand_set_up(void **state); // of a case: hand_config, no facts
int hand_tear_down(void **state);
void hand_open_anew(const struct rnic_config *config, unsigned facts);
void hand_end_anew(void); // what a case left of `end` goes

void hand_run(void); // until nothing moves
void hand_pass(duration_ns ns);
// There is one, and it is of this type.
struct rnic_ep_event hand_event(struct end *e, enum rnic_ep_event_type type);
struct cqe hand_completion(void);
void hand_expect_no_completion(void);
uint32_t hand_endpoints(void);

struct hand_stream *hand_of(struct end *e);
struct hand_stream *hand_arrive(void); // somebody connects to the listener
// A good frame of revision 2, enhanced, IRD and ORD 2, no CRC.
struct mpa_startup_frame hand_frame(enum mpa_frame_kind kind);
void hand_say(struct hand_stream *s, const struct mpa_startup_frame *frame);
// What the device has sent begins with a frame of this kind; returns its length.
size_t hand_heard(struct hand_stream *s, enum mpa_frame_kind kind, struct mpa_startup_frame *ret);
// The device has accepted a connection, and `end` is established; what it has sent is forgotten.
struct hand_stream *hand_establish(const struct mpa_startup_frame *request);
struct hand_stream *hand_establish_plain(void); // with hand_frame
// ... and the device may send: the peer has been silent for so long.
#define HAND_SILENCE_NS (100 * NS_PER_MS)
struct hand_stream *hand_establish_to_speak(void);
// A Send of `len` octets of `fill` comes.
void hand_send(struct hand_stream *s, uint32_t msn, uint8_t fill, size_t len);

// `end` has ended, once, and is counted by this reason alone.
void hand_expect_disconnected(const struct hand_stream *s, const char *reason, bool is_aborted);
// The next completion is of a receive that holds `fill` alone.
void hand_expect_received(uint64_t wr_id, uint32_t offset, uint8_t fill, uint32_t len);
