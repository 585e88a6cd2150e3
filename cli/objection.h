// Why something cannot be done, before anybody is told: `weft run` says it and gives up, `weft
// doctor` makes a finding of it.
#pragma once

struct objection {
    int status;         // EXIT_CANNOT ...; 0: it is worth knowing, no more
    const char *what;   // went wrong
    const char *object; // with which
    const char *why;
    const char *remedy; // what to do
};

// Who hears them, one by one; the texts live as long as the call.
struct hearer {
    void (*hear)(void *ctx, const struct objection *objection);
    void *ctx;
};

extern const struct hearer hearer_aloud; // says each on stderr
extern const struct hearer hearer_deaf;  // for who asks whether, and not why

// Tells one, whose reason is formatted. Gives `status` back.
int object_to(const struct hearer *hearer, int status, const char *what, const char *object,
              const char *remedy, const char *why, ...) __attribute__((format(printf, 6, 7)));
