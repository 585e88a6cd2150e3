/*
 * Replays a fuzz target's corpus: every file of the directories (or the files) named on the command
 * line is handed once to LLVMFuzzerTestOneInput, in name order. A finding aborts; so does a corpus
 * without a single file, since replaying nothing proves nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    uint8_t *data;
    size_t size;

    if (!file || fstat(fileno(file), &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    /* Exactly the input's octets, so that a sanitizer sees the first one read beyond them. */
    data = malloc(st.st_size ? (size_t)st.st_size : 1);
    size = fread(data, 1, (size_t)st.st_size, file);
    fclose(file);
    printf("# %s: %zu octets\n", path, size);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_path(const char *path)
{
    struct dirent **entries;
    struct stat st;
    char child[4096];
    int count, replayed = 0;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return replay_file(path);
    count = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
        replayed += replay_file(child);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return replayed;
}

int main(int argc, char **argv)
{
    int replayed = 0;

    for (int i = 1; i < argc; i++)
        replayed += replay_path(argv[i]);
    if (replayed == 0) {
        fprintf(stderr, "no corpus file found: name a directory that has some\n");
        return 2;
    }
    printf("# replayed %d inputs\n", replayed);
    return 0;
}
