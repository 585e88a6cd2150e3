#include "cli/draw_output.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/say.h"
#include "draw/page.h"
#include "draw/svg.h"
#include "draw/xml.h"

static void put(void *ctx, const char *text, size_t len)
{
    fwrite(text, 1, len, ctx);
}

static bool is_page(const char *path)
{
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    return dot != NULL && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0);
}

static bool write_failed(const char *path)
{
    say_error("no picture", path != NULL ? path : "standard output",
              "name a place with room that you may write to", "%m");
    return false;
}

// A new file beside the one that it will replace; `ret_name` is its name.
static FILE *file_beside(const char *path, char ret_name[PATH_MAX])
{
    mode_t mask = umask(0);
    umask(mask);
    snprintf(ret_name, PATH_MAX, "%.*s.XXXXXX", PATH_MAX - 8, path);
    int fd = mkostemp(ret_name, 0);
    if (fd < 0) {
        return NULL;
    }
    fchmod(fd, 0666 & ~mask);
    return fdopen(fd, "w");
}

// Devices and pipes are written to, not replaced.
static bool is_replaceable(const char *path)
{
    struct stat st;
    return path != NULL && (lstat(path, &st) != 0 || S_ISREG(st.st_mode));
}

bool draw_output_write(const char *path, const struct picture *picture, bool is_replaced)
{
    char beside[PATH_MAX];
    is_replaced &= is_replaceable(path);
    FILE *file = path == NULL  ? stdout
                 : is_replaced ? file_beside(path, beside)
                               : fopen(path, "we");
    if (file == NULL) {
        return write_failed(path);
    }
    struct xml_out out = {put, file};
    bool is_put = is_page(path) ? page_put(&out, picture) : svg_put(&out, picture, false);
    bool is_lost = fflush(file) != 0 || ferror(file);
    is_lost |= path != NULL && fclose(file) != 0;
    is_lost |= is_replaced && !is_lost && is_put && rename(beside, path) != 0;
    if (is_replaced && (is_lost || !is_put)) {
        unlink(beside);
    }
    if (!is_put) {
        say_error("no picture", "this process", "free some memory", "no memory");
    }
    return is_lost ? write_failed(path) : is_put;
}
