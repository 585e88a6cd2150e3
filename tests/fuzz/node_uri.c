// Any text as what an operator calls a volume.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/ddm/registry.h"
#include "node/host/wish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    struct volume_wish wish;
    struct why why = {""};
    CHECK(text != NULL);
    memcpy(text, data, size);
    if (wish_parse(text, &wish, &why) == 0) {
        CHECK(wish_name_is_good(wish.name));
        CHECK(ddm_registry_knows(wish.uri, &why));
    } else {
        CHECK(why_is_said(&why));
    }
    free(text);
    return 0;
}
