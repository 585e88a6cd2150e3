// The I/O converter of an RTA: makes a device's commands from the neutral requests of the CTA, and
// a completion from what the device says. A device that can do less at a time than was asked for
// gets several commands, one after the other.
//
// What an I/O format is like stands in a struct of its own, by the name that a driver gives
// (ddm_driver.format).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/interface/rta_ddm.h"
#include "node/rta/store.h"

struct io_format {
    const char *name;
    // Fills native and native_len from the request in the command; one that does less of it
    // shortens len. Not NODE_OK: the format has no such operation.
    enum node_completion (*encode)(const struct volume_profile *profile,
                                   struct ddm_command *command);
    // Fills completion and detail from status and transport_error, where there is one of them: a
    // filter that answers in the device's stead fills completion itself. Shortens len and data_len
    // to what was done, if the device did less.
    void (*decode)(struct ddm_command *command);
};

// What is asked of a request before any device sees it. NODE_OK: it can be carried out.
enum node_completion converter_check(const struct volume_profile *profile, bool is_read_only,
                                     const struct frame *request);

// The next command of the transaction. Not NODE_OK: it ends with this.
enum node_completion converter_command(const struct volume_profile *profile,
                                       const struct io_format *format,
                                       const struct store_transaction *transaction,
                                       struct ddm_command *ret);

// Takes what the device said: into the command's completion, and the transaction's progress. True:
// the transaction has more to do.
bool converter_result(const struct volume_profile *profile, const struct io_format *format,
                      struct store_transaction *transaction, struct ddm_command *command);
