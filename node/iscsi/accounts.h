// Who may log in, by which secret; and the target's own.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum account_limits {
    ACCOUNT_NAME_MAX = 224,
    ACCOUNT_SECRET_MIN = 12, // 96 bits, below which RFC 7143 section 9.2.1 wants IPsec
    ACCOUNT_SECRET_MAX = 128,
    ACCOUNT_COUNT_MAX = 256,
};

struct iscsi_account {
    char name[ACCOUNT_NAME_MAX];      // CHAP_N
    char initiator[ACCOUNT_NAME_MAX]; // the initiator name that it is for; empty: any
    char target[ACCOUNT_NAME_MAX];    // the target that it logs in to; empty: any
    char secret[ACCOUNT_SECRET_MAX];  // empty: none
};

struct iscsi_accounts {
    bool is_required; // nobody logs in without
    size_t count;
    struct iscsi_account initiators[ACCOUNT_COUNT_MAX];
    struct iscsi_account target; // its name and secret, to who asks for a proof
};
