// Of NVMe targets what is no volume: their discovery services.
#pragma once

#include <weft/nvme.h>

// Connects to the discovery service, gets its log. 0, and an array that the caller frees; or
// EXIT_FAILED after saying why not.
int volume_nvme_discover(const struct weft_nvme_address *address, struct weft_nvme_entry **ret,
                         size_t *ret_count);
