#include "node/host/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTION_MAX = 64 };

struct reading {
    struct iscsi_accounts *accounts;
    struct why *why;
    char section[SECTION_MAX];
    struct iscsi_account *account; // of the section; NULL: there is none yet
};

/* ---- what stands in it: values are never said, for one of them may be a secret --------------- */

static bool fail(struct reading *r, const char *what)
{
    why_say(r->why, "%.80s", what);
    return false;
}

static bool section_begin(struct reading *r, const char *section)
{
    struct iscsi_accounts *accounts = r->accounts;
    snprintf(r->section, sizeof r->section, "%s", section);
    if (strcmp(section, "target") == 0) {
        r->account = &accounts->target;
        return true;
    }
    if (strncmp(section, "initiator ", strlen("initiator ")) != 0) {
        return fail(r, "not [initiator LABEL] or [target]");
    }
    if (accounts->count == ACCOUNT_COUNT_MAX) {
        return fail(r, "there are too many initiators");
    }
    r->account = &accounts->initiators[accounts->count++];
    return true;
}

static bool text_set(struct reading *r, char *to, size_t capacity, const char *value)
{
    if (*value == '\0' || strlen(value) >= capacity) {
        return fail(r, "empty, or too long");
    }
    snprintf(to, capacity, "%s", value);
    return true;
}

static bool account_set(struct reading *r, const char *key, const char *value)
{
    struct iscsi_account *account = r->account;
    if (strcmp(key, "name") == 0) {
        return text_set(r, account->name, sizeof account->name, value);
    }
    if (strcmp(key, "initiator") == 0 && account != &r->accounts->target) {
        return text_set(r, account->initiator, sizeof account->initiator, value);
    }
    if (strcmp(key, "target") == 0 && account != &r->accounts->target) {
        return text_set(r, account->target, sizeof account->target, value);
    }
    if (strcmp(key, "secret") != 0) {
        return fail(r, "there is no such key");
    }
    if (strlen(value) < ACCOUNT_SECRET_MIN) {
        return fail(r, "a secret has 12 octets or more");
    }
    return text_set(r, account->secret, sizeof account->secret, value);
}

static int on_key(void *ctx, const char *section, const char *key, const char *value)
{
    struct reading *r = ctx;
    bool is_new = r->account == NULL || strcmp(section, r->section) != 0;
    if (is_new && !section_begin(r, section)) {
        return 0;
    }
    return account_set(r, key, value);
}

/* ---- what it comes to ------------------------------------------------------------------------ */

static bool is_whole(const struct iscsi_account *account)
{
    return account->name[0] != '\0' && account->secret[0] != '\0';
}

// With one secret for both, who asks for a proof could pass on what it hears as its own.
static int accounts_check(const struct iscsi_accounts *accounts, struct why *ret_why)
{
    const struct iscsi_account *target = &accounts->target;
    const char *what = accounts->count == 0 ? "it has no [initiator LABEL]" : NULL;
    for (size_t i = 0; i < accounts->count && what == NULL; i++) {
        const struct iscsi_account *account = &accounts->initiators[i];
        if (!is_whole(account)) {
            what = "an initiator lacks its name or secret";
        } else if (strcmp(account->secret, target->secret) == 0) {
            what = "the target has the secret of an initiator";
        }
    }
    if (what == NULL && !is_whole(target) && (target->name[0] != '\0' || *target->secret != '\0')) {
        what = "the target lacks its name or secret";
    }
    if (what != NULL) {
        why_say(ret_why, "%s", what);
    }
    return what != NULL ? -EINVAL : 0;
}

static int accounts_read(FILE *file, struct iscsi_accounts *accounts, struct why *ret_why)
{
    struct why why = {"it cannot be read"};
    struct reading reading = {.accounts = accounts, .why = &why};
    int line = ini_parse_file(file, on_key, &reading);
    if (line != 0) {
        why_say(ret_why, "line %d: %.200s", line, why.text);
        return -EINVAL;
    }
    return accounts_check(accounts, ret_why);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int file_check(int fd, struct why *ret_why)
{
    struct stat is;
    const char *what = NULL;
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) {
        what = "it is no file";
    } else if (is.st_uid != geteuid() && is.st_uid != 0) {
        what = "it belongs to somebody else";
    } else if ((is.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        what = "others may use it; its mode must be 0600";
    }
    if (what != NULL) {
        why_say(ret_why, "%s", what);
    }
    return what != NULL ? -EACCES : 0;
}

static int file_read(const char *path, struct iscsi_accounts *accounts, struct why *ret_why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        why_say(ret_why, "%s", strerror(errno));
        return -errno;
    }
    int error = file_check(fd, ret_why);
    FILE *file = error == 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL) {
        close(fd);
        return error != 0 ? error : -ENOMEM;
    }
    error = accounts_read(file, accounts, ret_why);
    fclose(file);
    return error;
}

int secrets_read(const char *path, struct iscsi_accounts *ret, struct why *ret_why)
{
    if (path[0] == '\0') {
        return 0;
    }
    struct iscsi_accounts *accounts = calloc(1, sizeof *accounts);
    why_say(ret_why, "no memory");
    if (accounts == NULL) {
        return -ENOMEM;
    }
    accounts->is_required = true;
    int error = file_read(path, accounts, ret_why);
    if (error == 0) {
        *ret = *accounts;
    }
    explicit_bzero(accounts, sizeof *accounts);
    free(accounts);
    return error;
}
