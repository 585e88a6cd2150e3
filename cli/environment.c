#include "cli/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/objection.h"
#include "cli/say.h"

enum { OPTION_SET = 256, OPTION_STATS, OPTION_VIEW, OPTION_SETTING };

/* ---- options --------------------------------------------------------------------------------- */

void environment_options(struct option ret_options[ENVIRONMENT_OPTION_MAX])
{
    static const struct option shared[] = {
        {"set", required_argument, NULL, OPTION_SET},
        {"stats", required_argument, NULL, OPTION_STATS},
        {"view", required_argument, NULL, OPTION_VIEW},
    };
    memcpy(ret_options, shared, sizeof shared);
    setting_options(ret_options + sizeof shared / sizeof shared[0], OPTION_SETTING);
}

void environment_options_print(FILE *out)
{
    fputs(
        "  --set NAME=VALUE         a setting by the name of its variable, WEFT_ may be left out\n"
        "  --stats=FILE             the counters at exit, like WEFT_STATS_FILE\n"
        "  --view=preload|off       show programs the devices in /sys/class/infiniband and\n"
        "                           /dev/infiniband too, by a preloaded library: by itself with\n"
        "                           --wire=roce\n"
        "\n"
        "Settings, see `weft help environment` for their values:\n",
        out);
    setting_options_print(out);
}

static int view_choose(const char *command, const char *text, enum environment_view *ret)
{
    if (strcmp(text, "off") == 0 || strcmp(text, "preload") == 0) {
        *ret = *text == 'p' ? VIEW_PRELOAD : VIEW_OFF;
        return 0;
    }
    return say_usage(command, "cannot use --view=%s: it must be preload or off", text);
}

int environment_option_apply(const char *command, int option, char **argv,
                             enum environment_view *ret_view)
{
    switch (option) {
    case OPTION_SET:
        return setting_assign(command, optarg);
    case OPTION_STATS:
        return setting_assign_to(command, "WEFT_STATS_FILE", optarg);
    case OPTION_VIEW:
        return view_choose(command, optarg, ret_view);
    case '?':
        return say_usage(command, "there is no option %s", argv[optind - 1]);
    case ':':
        return say_usage(command, "%s needs a value", argv[optind - 1]);
    default:
        return setting_set(command, (size_t)(option - OPTION_SETTING), optarg);
    }
}

/* ---- where our libraries are ----------------------------------------------------------------- */

static bool has_library(const char *dir)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/libweft.so.1", dir);
    return len < PATH_MAX && access(path, R_OK) == 0;
}

// Beside this program in the tree it was built in, or where `make install` puts them.
int environment_library_find(char ret_dir[PATH_MAX], const struct hearer *hearer)
{
    static const char *const places[] = {"lib", WEFT_LIBRARY_DIR};
    static const char broken[] = "weft is not whole";
    char own[PATH_MAX], place[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    if (len <= 0) {
        return object_to(hearer, EXIT_BROKEN, broken, "/proc/self/exe", "mount /proc", "%m");
    }
    own[len] = '\0';
    *strrchr(own, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int place_len = snprintf(place, sizeof place, "%s/%s", own, places[i]);
        if (place_len < PATH_MAX && has_library(place) && realpath(place, ret_dir) != NULL) {
            if (strpbrk(ret_dir, ":;") == NULL) {
                return 0;
            }
            return object_to(hearer, EXIT_BROKEN, "weft cannot be used here", ret_dir,
                             "move weft to another folder",
                             "LD_LIBRARY_PATH cannot hold a path with : or ; in it");
        }
    }
    return object_to(hearer, EXIT_BROKEN, broken, own, "build it (make), or install it again",
                     "libweft.so.1 is neither in lib/ nor in %s/ from there", WEFT_LIBRARY_DIR);
}

int environment_library_dir(char ret_dir[PATH_MAX])
{
    return environment_library_find(ret_dir, &hearer_aloud);
}

static bool is_first_of(const char *list, const char *first)
{
    size_t len = strlen(first);
    return strncmp(list, first, len) == 0 && (list[len] == '\0' || list[len] == ':');
}

// Puts `first` before what the variable lists already, unless it is there.
static int list_prepend(const char *variable, const char *first)
{
    const char *before = getenv(variable);
    char *list = NULL;
    bool has_more = before != NULL && *before != '\0';
    if (has_more && is_first_of(before, first)) {
        return 0;
    }
    if (asprintf(&list, "%s%s%s", first, has_more ? ":" : "", has_more ? before : "") < 0 ||
        setenv(variable, list, 1) != 0) {
        say_error("environment not set", variable, "free some memory", "%m");
        return EXIT_BROKEN;
    }
    free(list);
    return 0;
}

// The preloaded library is looked for where the others are: it reaches what they reach. Programs
// for InfiniBand look at files before they look at a device: who wants that device alone has them.
int environment_set(const char *library_dir, enum environment_view view)
{
    const char *wire = getenv("WEFT_WIRE");
    const bool is_roce = wire != NULL && strcmp(wire, "roce") == 0;
    const bool has_view = view == VIEW_PRELOAD || (view == VIEW_BY_WIRE && is_roce);
    int result = list_prepend("LD_LIBRARY_PATH", library_dir);
    return result != 0 || !has_view ? result : list_prepend("LD_PRELOAD", "libweft-view.so");
}
