#include "cli/doctor/script.h"

#include <stdio.h>
#include <string.h>

static const char blanks[] = " \t";
enum { LINE_MAX_LEN = 1024, LINES_MAX = 1 << 16 };

bool script_read(const char *path, struct script *ret)
{
    char line[SCRIPT_WORD_MAX];
    FILE *in = fopen(path, "re");
    const bool is_script =
        in != NULL && fgets(line, sizeof line, in) != NULL && strncmp(line, "#!", 2) == 0;
    if (in != NULL) {
        fclose(in);
    }
    if (!is_script) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    const char *word = line + 2 + strspn(line + 2, blanks);
    const size_t len = strcspn(word, blanks);
    const char *rest = word + len + strspn(word + len, blanks);
    snprintf(ret->interpreter, sizeof ret->interpreter, "%.*s", (int)len, word);
    snprintf(ret->argument, sizeof ret->argument, "%s", rest);
    return true;
}

// Options of env, and variables that it sets, stand before the name.
bool script_of_env(const struct script *script, char ret[SCRIPT_WORD_MAX])
{
    const char *base = strrchr(script->interpreter, '/'), *word = script->argument;
    if (strcmp(base != NULL ? base + 1 : script->interpreter, "env") != 0) {
        return false;
    }
    for (size_t len; (len = strcspn(word, blanks)) > 0; word += strspn(word, blanks)) {
        if (*word != '-' && memchr(word, '=', len) == NULL) {
            snprintf(ret, SCRIPT_WORD_MAX, "%.*s", (int)len, word);
            return true;
        }
        word += len;
    }
    return false;
}

static bool line_has_word(const char *line, const char *word)
{
    static const char ends[] = " \t\r\n;&|()\"'`";
    const size_t len = strlen(word);
    for (const char *at = line; (at = strstr(at, word)) != NULL; at += len) {
        const bool begins = at == line || strchr(ends, at[-1]) != NULL;
        if (begins && (at[len] == '\0' || strchr(ends, at[len]) != NULL)) {
            return true;
        }
    }
    return false;
}

bool script_has_word(const char *path, const char *word)
{
    char line[LINE_MAX_LEN];
    bool is_found = false;
    FILE *in = fopen(path, "re");
    for (unsigned i = 0; in != NULL && !is_found && i < LINES_MAX; i++) {
        if (fgets(line, sizeof line, in) == NULL) {
            break;
        }
        is_found = line[strspn(line, blanks)] != '#' && line_has_word(line, word);
    }
    if (in != NULL) {
        fclose(in);
    }
    return is_found;
}
