// A golden file: what a test prints is compared with tests/NAME, whole. With WEFT_GOLDEN=update in
// the environment the file is written instead.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static inline void golden_compare(const char *name, const char *text)
{
    static char golden[1 << 16];
    char path[1024];
    const char *root = getenv("WEFT_SOURCE_DIR");
    const char *how = getenv("WEFT_GOLDEN");
    snprintf(path, sizeof path, "%s/tests/%s", root != NULL ? root : ".", name);
    if (how != NULL && strcmp(how, "update") == 0) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(text, out);
        fclose(out);
        return;
    }
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    size_t len = fread(golden, 1, sizeof golden - 1, in);
    golden[len] = '\0';
    fclose(in);
    assert_string_equal(text, golden);
}
