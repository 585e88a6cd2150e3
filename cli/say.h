// What the commands say to people, all of it on stderr: stdout is for data.
#pragma once

// The exit statuses of `weft`, beside those of the program that `weft run` turns into.
enum {
    EXIT_FAILED = 1,    // the command could not do all it was asked for
    EXIT_USAGE = 2,     // the command line is wrong
    EXIT_BROKEN = 125,  // weft itself is not whole
    EXIT_CANNOT = 126,  // the program is there, but cannot run on weft
    EXIT_MISSING = 127, // there is no such program
};

// An error in four parts: what went wrong, with which object, why (formatted), what to do.
void say_error(const char *what, const char *object, const char *remedy, const char *why, ...)
    __attribute__((format(printf, 4, 5)));

// One line, no error.
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A wrong command line: what, then where the right one stands. Gives EXIT_USAGE back.
int say_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
