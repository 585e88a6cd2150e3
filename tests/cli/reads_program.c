// A program that has weft's device up and does what <weft/reads.h> offers, word by word of stdin;
// after each it prints what weft_reads_query says. test_reads.py commands it from outside too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/reads.h>

static int obey(const char *word)
{
    if (strcmp(word, "short") == 0 || strcmp(word, "enough") == 0) {
        return weft_reads_set_memory_short(strcmp(word, "short") == 0);
    }
    if (strcmp(word, "auto") == 0) {
        return weft_reads_release_allotment();
    }
    return strcmp(word, "query") == 0 ? 0
                                      : weft_reads_set_allotment((uint32_t)strtoul(word, NULL, 10));
}

int main(void)
{
    char word[32];
    struct weft_reads reads;
    while (scanf("%31s", word) == 1) {
        int error = obey(word);
        if (error == 0) {
            error = weft_reads_query(&reads);
        }
        printf("%d %u %u %u\n", error, reads.allotment, reads.allotment_base, reads.contexts);
        fflush(stdout);
    }
    return 0;
}
