// What becomes of a volume's reservation when a client asks for something: the rules of the
// registrants, and who is told.
//
// Sans-I/O. One thread at a time.
#pragma once

#include "node/interface/reservation.h"

// Who is told, while the change is under way: the book is not to be looked at from within.
struct book_listener {
    void *ctx;
    void (*tell)(void *ctx, const char *registrant, enum reservation_event event);
};

// The wish of the client so named, which is not empty, over this connection.
enum reservation_outcome book_act(struct reservation *book, const char *name, uint32_t connection,
                                  const struct reservation_wish *wish,
                                  const struct book_listener *listener);

// Reserves the volume for the connection. False: somebody has it, or has registered.
bool book_claim(struct reservation *book, uint32_t connection);
