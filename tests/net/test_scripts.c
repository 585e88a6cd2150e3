// Runs the scripted segment tests of tests/net/scripts (docs/segment-scripts.md), each a case of
// its own:
//
//     build/tests/test_net_scripts                      all
//     build/tests/test_net_scripts handshake            those of a folder
//     build/tests/test_net_scripts handshake/passive    one
//     build/tests/test_net_scripts /path/to/one.pkt     one from elsewhere
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/net/script.h"

enum { SCRIPTS_MAX = 1024, PATH_LEN_MAX = 512 };

static char *names[SCRIPTS_MAX]; // "handshake/passive"
static unsigned name_count;

static const char *folder(char *buf, size_t len)
{
    const char *source = getenv("WEFT_SOURCE_DIR");
    snprintf(buf, len, "%s/tests/net/scripts", source != NULL ? source : ".");
    return buf;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void collect(const char *room)
{
    char path[PATH_LEN_MAX], name[PATH_LEN_MAX];
    struct dirent *entry;
    folder(path, sizeof path);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", room);
    DIR *dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);
        if (len > 4 && strcmp(entry->d_name + len - 4, ".pkt") == 0) {
            snprintf(name, sizeof name, "%s/%.*s", room, (int)len - 4, entry->d_name);
            CHECK(name_count < SCRIPTS_MAX);
            names[name_count++] = strdup(name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void collect_all(void)
{
    char path[PATH_LEN_MAX];
    struct dirent *entry;
    DIR *dir = opendir(folder(path, sizeof path));
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            collect(entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    qsort(names, name_count, sizeof names[0], by_name);
}

static char *file_read(const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "r");
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        return NULL;
    }
    char *text = calloc(1, (size_t)st.st_size + 1);
    CHECK(text != NULL);
    size_t len = fread(text, 1, (size_t)st.st_size, f);
    fclose(f);
    return len == (size_t)st.st_size ? text : NULL;
}

static bool is_wanted(const char *name, int count, char **wanted)
{
    for (int i = 0; i < count; i++) {
        size_t len = strlen(wanted[i]);
        if (strncmp(name, wanted[i], len) == 0 && (name[len] == '\0' || name[len] == '/')) {
            return true;
        }
    }
    return count == 0;
}

static bool run_file(unsigned number, const char *name, const char *path)
{
    struct script_error e = {.path = path};
    char *text = file_read(path);
    bool is_good = text != NULL ? script_run(&e, text) : script_fail(&e, "cannot be read");
    free(text);
    printf("%sok %u - %s\n", is_good ? "" : "not ", number, name);
    if (!is_good) {
        printf("# %s:%u: %s\n", e.path, e.line, e.text);
    }
    return is_good;
}

int main(int argc, char **argv)
{
    unsigned number = 0;
    bool all_good = true;
    char path[PATH_LEN_MAX];
    collect_all();
    for (int i = 1; i < argc; i++) { // files
        if (strstr(argv[i], ".pkt") != NULL) {
            all_good &= run_file(++number, argv[i], argv[i]);
        }
    }
    for (unsigned i = 0; i < name_count; i++) {
        if (is_wanted(names[i], argc - 1, argv + 1)) {
            folder(path, sizeof path);
            snprintf(path + strlen(path), sizeof path - strlen(path), "/%s.pkt", names[i]);
            all_good &= run_file(++number, names[i], path);
        }
        free(names[i]);
    }
    printf("1..%u\n", number);
    return all_good && number > 0 ? 0 : 1;
}
