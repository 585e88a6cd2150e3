// weft env: the environment of `weft run`, for all that a shell or a later step of a CI job starts.

#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/settings.h>

#include "cli/command.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "cli/settings.h"

enum { OPTION_HELP = 'h', OPTION_FORMAT = 'f', VARIABLE_MAX = SETTING_COUNT_MAX + 2 };

static void env_help(FILE *out)
{
    fputs("Usage: weft env [OPTION...]\n"
          "\n"
          "Prints the variables with which programs use weft in place of the system's libibverbs\n"
          "and librdmacm, and the settings that are given or in force. Whatever runs with them\n"
          "afterwards is started by its plain name.\n"
          "\n"
          "Options:\n"
          "  -f, --format=FORMAT      shell: `export` lines, the default; github: lines for the\n"
          "                           file $GITHUB_ENV; dotenv: NAME=VALUE as it is, for GitLab\n"
          "                           and containers; json: one object\n"
          "  -h, --help               this text\n",
          out);
    environment_options_print(out);
    fputs("\n"
          "Exit status: 0; 1: a value cannot be written in this format; 2: wrong command line;\n"
          "125: weft is not whole.\n"
          "\n"
          "Examples:\n"
          "  eval \"$(weft env)\"                        this shell, and all it starts\n"
          "  weft env --format=github >>\"$GITHUB_ENV\"  the later steps of a job\n"
          "  weft env --format=dotenv --wire=roce >weft.env\n",
          out);
}

/* ---- formats --------------------------------------------------------------------------------- */

struct variable {
    const char *name, *value;
};

// Between quotes a shell takes all as it is, but for the quote.
static void quoted_print(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*text);
        }
    }
    putchar('\'');
}

static int shell_print(const struct variable *variables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("export %s=", variables[i].name);
        quoted_print(variables[i].value);
        putchar('\n');
    }
    return 0;
}

static bool is_one_line(const char *text)
{
    return strpbrk(text, "\r\n") == NULL;
}

// All or nothing: half an environment is none.
static int lines_print(const struct variable *variables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_one_line(variables[i].value)) {
            say_error("cannot write variable", variables[i].name,
                      "give it a value without one, or use --format=shell or json",
                      "its value has a line break, which ends it in this format");
            return EXIT_FAILED;
        }
    }
    for (size_t i = 0; i < count; i++) {
        printf("%s=%s\n", variables[i].name, variables[i].value);
    }
    return 0;
}

static int json_print(const struct variable *variables, size_t count)
{
    struct json_object *object = json_object_new_object();
    for (size_t i = 0; i < count; i++) {
        json_object_object_add(object, variables[i].name,
                               json_object_new_string(variables[i].value));
    }
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
    return 0;
}

struct format {
    const char *name;
    int (*print)(const struct variable *variables, size_t count);
};

static const struct format formats[] = {
    {"shell", shell_print},
    {"github", lines_print},
    {"dotenv", lines_print},
    {"json", json_print},
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

static int format_choose(const char *text, const struct format **ret)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(text, formats[i].name) == 0) {
            *ret = &formats[i];
            return 0;
        }
    }
    return say_usage("env", "cannot use --format=%s: it must be shell, github, dotenv or json",
                     text);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void variable_add(struct variable variables[VARIABLE_MAX], size_t *count, const char *name)
{
    const char *value = getenv(name);
    if (value != NULL && *value != '\0') { // an empty one is as none
        variables[(*count)++] = (struct variable){name, value};
    }
}

// The loader's, and every setting that has a value.
static size_t variables_collect(struct variable ret[VARIABLE_MAX])
{
    size_t count = 0;
    const struct weft_setting *setting;
    variable_add(ret, &count, "LD_LIBRARY_PATH");
    variable_add(ret, &count, "LD_PRELOAD");
    for (size_t i = 0; i < SETTING_COUNT_MAX && (setting = weft_setting_at(i)) != NULL; i++) {
        variable_add(ret, &count, setting->name);
    }
    return count;
}

struct wishes {
    const struct format *format;
    enum environment_view view;
    bool is_done; // the help was all
};

static int options_read(int argc, char **argv, struct wishes *ret)
{
    struct option options[ENVIRONMENT_OPTION_MAX + 3] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"format", required_argument, NULL, OPTION_FORMAT},
    };
    environment_options(options + 2);
    *ret = (struct wishes){.format = &formats[0]};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "+:hf:", options, NULL)) != -1;) {
        if (option == OPTION_HELP) {
            env_help(stdout);
            ret->is_done = true;
            return 0;
        }
        int result = option == OPTION_FORMAT
                         ? format_choose(optarg, &ret->format)
                         : environment_option_apply("env", option, argv, &ret->view);
        if (result != 0) {
            return result;
        }
    }
    if (optind < argc) {
        return say_usage("env", "what is %s for? A program is started by `weft run`", argv[optind]);
    }
    return 0;
}

static int env_main(int argc, char **argv)
{
    char library_dir[PATH_MAX];
    struct variable variables[VARIABLE_MAX];
    struct wishes wishes;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    if ((result = environment_library_dir(library_dir)) != 0 ||
        (result = environment_set(library_dir, wishes.view)) != 0) {
        return result;
    }
    return wishes.format->print(variables, variables_collect(variables));
}

const struct command command_env = {
    .name = "env",
    .summary = "print the environment of `weft run`, for a shell or a CI job",
    .run = env_main,
    .help = env_help,
};
