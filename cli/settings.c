#include "cli/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <weft/settings.h>

#include "cli/command.h"
#include "cli/say.h"

enum { PREFIX_LEN = sizeof "WEFT_" - 1 };

void setting_option_name(const char *variable, char ret_option[SETTING_OPTION_MAX_LEN])
{
    size_t len = 0;
    for (const char *c = variable + PREFIX_LEN; *c != '\0' && len < SETTING_OPTION_MAX_LEN - 1;
         c++) {
        ret_option[len++] = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    }
    ret_option[len] = '\0';
}

int setting_set(const char *command, size_t index, const char *value)
{
    const struct weft_setting *setting = weft_setting_at(index);
    if (!weft_setting_accepts(setting, value)) {
        return say_usage(command, "cannot use %s=%s: it must be %s", setting->name, value,
                         setting->values);
    }
    if (setenv(setting->name, value, 1) != 0) {
        say_error("environment not set", setting->name, "free some memory", "%m");
        return EXIT_BROKEN;
    }
    return 0;
}

static bool is_name_of(const char *name, const char *variable)
{
    char option[SETTING_OPTION_MAX_LEN];
    setting_option_name(variable, option);
    return strcmp(name, variable) == 0 || strcmp(name, variable + PREFIX_LEN) == 0 ||
           strcmp(name, option) == 0;
}

int setting_assign_to(const char *command, const char *name, const char *value)
{
    const struct weft_setting *setting;
    for (size_t i = 0; (setting = weft_setting_at(i)) != NULL; i++) {
        if (is_name_of(name, setting->name)) {
            return setting_set(command, i, value);
        }
    }
    return say_usage(command, "there is no setting %s; `weft help environment` lists them", name);
}

int setting_assign(const char *command, const char *text)
{
    const char *equals = strchr(text, '=');
    char *name = equals != NULL ? strndup(text, (size_t)(equals - text)) : NULL;
    if (name == NULL) {
        return say_usage(command, "--set %s: it must be NAME=VALUE", text);
    }
    int result = setting_assign_to(command, name, equals + 1);
    free(name);
    return result;
}

size_t setting_options(struct option ret_options[SETTING_COUNT_MAX], int first_val)
{
    static char names[SETTING_COUNT_MAX][SETTING_OPTION_MAX_LEN];
    const struct weft_setting *setting;
    size_t count = 0;
    while (count < SETTING_COUNT_MAX && (setting = weft_setting_at(count)) != NULL) {
        setting_option_name(setting->name, names[count]);
        ret_options[count] =
            (struct option){names[count], required_argument, NULL, first_val + (int)count};
        count++;
    }
    return count;
}

void setting_options_print(FILE *out)
{
    char option[SETTING_OPTION_MAX_LEN], both[2 * SETTING_OPTION_MAX_LEN];
    const struct weft_setting *setting;
    for (size_t i = 0; (setting = weft_setting_at(i)) != NULL; i++) {
        setting_option_name(setting->name, option);
        snprintf(both, sizeof both, "--%s=%s", option, setting->argument);
        fprintf(out, "  %-24s %s\n", both, setting->summary);
    }
}

void settings_print(FILE *out)
{
    char option[SETTING_OPTION_MAX_LEN];
    const struct weft_setting *setting;
    fputs("Variables that weft reads when a program first uses the device; each is an option of\n"
          "`weft run` and `weft env` too. weft(7) says more.\n",
          out);
    for (size_t i = 0; (setting = weft_setting_at(i)) != NULL; i++) {
        setting_option_name(setting->name, option);
        fprintf(out, "\n%s (--%s)\n    %s\n    value: %s; default: %s\n", setting->name, option,
                setting->summary, setting->values,
                *setting->initial != '\0' ? setting->initial : "none");
    }
}
