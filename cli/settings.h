// The settings of the device, from the table of <weft/settings.h>, as options of commands. Of those
// that set one, `command` is who says what is wrong.
#pragma once

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

enum { SETTING_OPTION_MAX_LEN = 64, SETTING_COUNT_MAX = 128 };

// "--" less: WEFT_PEER_TIMEOUT is peer-timeout.
void setting_option_name(const char *variable, char ret_option[SETTING_OPTION_MAX_LEN]);

// Sets the variable of the setting at `index`. 0, or EXIT_USAGE after saying what is wrong.
int setting_set(const char *command, size_t index, const char *value);

// "NAME=VALUE", with or without WEFT_ before it, in capitals or as the option is written.
int setting_assign(const char *command, const char *text);

// As setting_assign, in two parts.
int setting_assign_to(const char *command, const char *name, const char *value);

// One option per setting; `option->val` is `first_val` plus the setting's index. Gives back how
// many. The names live as long as the process.
size_t setting_options(struct option ret_options[SETTING_COUNT_MAX], int first_val);

// The part of a command's help that the table knows.
void setting_options_print(FILE *out);
