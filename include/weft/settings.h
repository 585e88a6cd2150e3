// The settings of weft's device: the WEFT_* variables of a program's environment, as data. weft(7)
// describes them at length. Functions of libweft.so.1; all of it constant, so from any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_setting {
    const char *name;     // of the environment variable
    const char *argument; // what a value is, in one word: SWITCH, SECONDS, FILE ...
    const char *values;   // what it may be, to go on with after "it must be"
    const char *initial;  // what holds without the variable; empty: nothing
    const char *summary;  // one line, no full stop
};

// The settings one by one; NULL for an index at or beyond their number.
const struct weft_setting *weft_setting_at(size_t index);

// Whether `value` is one that the setting may have.
bool weft_setting_accepts(const struct weft_setting *setting, const char *value);

#ifdef __cplusplus
}
#endif
