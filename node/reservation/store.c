#include "node/reservation/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "node/interface/reservation.h"
#include "node/interface/uma_tts.h"
#include "text/append.h"
#include "text/percent.h"
#include "text/show.h"

enum { LINE_MAX = 1024, WORD_MAX = 4, UUID_DIGITS = 2 * VOLUME_UUID_LEN, KEY_DIGITS = 16 };

static const char header[] = "weft reservations 1";

struct entry {
    uint8_t uuid[VOLUME_UUID_LEN];
    unsigned users;
    struct list_link link;
    struct reservation reservation;
};

struct reservation_store {
    bool can_persist;
    struct list_link entries;
};

struct reservation_store *reservation_store_create(bool can_persist)
{
    struct reservation_store *store = calloc(1, sizeof *store);
    if (store != NULL) {
        store->can_persist = can_persist;
        list_init(&store->entries);
    }
    return store;
}

static void entry_destroy(struct entry *entry)
{
    list_remove(&entry->link);
    free(entry);
}

void reservation_store_destroy(struct reservation_store *store)
{
    while (store != NULL && !list_is_empty(&store->entries)) {
        entry_destroy(LIST_ENTRY(store->entries.next, struct entry, link));
    }
    free(store);
}

static struct entry *entry_find(struct reservation_store *store, const uint8_t *uuid)
{
    for (struct list_link *l = store->entries.next; l != &store->entries; l = l->next) {
        struct entry *entry = LIST_ENTRY(l, struct entry, link);
        if (memcmp(entry->uuid, uuid, VOLUME_UUID_LEN) == 0) {
            return entry;
        }
    }
    return NULL;
}

static struct entry *entry_create(struct reservation_store *store, const uint8_t *uuid)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (entry != NULL) {
        memcpy(entry->uuid, uuid, VOLUME_UUID_LEN);
        entry->reservation.can_persist = store->can_persist;
        list_push_tail(&store->entries, &entry->link);
    }
    return entry;
}

struct reservation *reservation_store_join(struct reservation_store *store,
                                           const uint8_t uuid[VOLUME_UUID_LEN])
{
    struct entry *entry = entry_find(store, uuid);
    entry = entry != NULL ? entry : entry_create(store, uuid);
    if (entry != NULL) {
        entry->users++;
    }
    return entry != NULL ? &entry->reservation : NULL;
}

void reservation_store_leave(struct reservation_store *store, struct reservation *reservation)
{
    struct entry *entry = LIST_ENTRY(reservation, struct entry, reservation);
    if (--entry->users == 0 && !reservation->persists) {
        entry_destroy(entry);
    }
}

/* ---- the text -------------------------------------------------------------------------------- */

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:,-_";

static void append_name(char line[LINE_MAX], const char *name)
{
    for (const char *at = name; *at != '\0'; at++) {
        bool is_plain = strchr(plain, *at) != NULL;
        text_append(line, LINE_MAX, is_plain ? "%c" : "%%%02x",
                    is_plain ? *at : (unsigned char)*at);
    }
}

static void entry_emit(const struct entry *entry, void (*put)(void *ctx, const char *line),
                       void *ctx)
{
    const struct reservation *r = &entry->reservation;
    char line[LINE_MAX], uuid[UUID_DIGITS + 1];
    snprintf(line, sizeof line, "volume %s %" PRIu32 " %u",
             text_hex(entry->uuid, VOLUME_UUID_LEN, uuid), r->generation, r->type);
    put(ctx, line);
    for (unsigned i = 0; i < r->registrant_count; i++) {
        const struct registrant *one = &r->registrants[i];
        bool is_holder = r->type != RESERVATION_NONE && strcmp(one->name, r->holder) == 0;
        snprintf(line, sizeof line, "%s %016" PRIx64 " ", is_holder ? "holder" : "registrant",
                 one->key);
        append_name(line, one->name);
        put(ctx, line);
    }
}

void reservation_store_emit(const struct reservation_store *store,
                            void (*put)(void *ctx, const char *line), void *ctx)
{
    put(ctx, header);
    for (const struct list_link *l = store->entries.next; l != &store->entries; l = l->next) {
        const struct entry *entry = LIST_ENTRY(l, struct entry, link);
        if (entry->reservation.persists && entry->reservation.registrant_count > 0) {
            entry_emit(entry, put, ctx);
        }
    }
    put(ctx, "end");
}

/* ---- ... and back ---------------------------------------------------------------------------- */

// What has been read so far.
struct reading {
    struct reservation_store *store;
    struct reservation *book; // of the volume last named; NULL: none yet
    const char *why;
};

static bool number_parse(const char *word, int base, uint64_t max, uint64_t *ret)
{
    const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
    size_t len = strlen(word);
    bool is_number = len > 0 && len <= KEY_DIGITS && strspn(word, digits) == len;
    *ret = is_number ? strtoull(word, NULL, base) : 0;
    return is_number && *ret <= max;
}

static bool uuid_parse(const char *word, uint8_t ret[VOLUME_UUID_LEN])
{
    for (unsigned i = 0; i < VOLUME_UUID_LEN; i++) {
        char digits[3] = {0};
        uint64_t octet;
        memcpy(digits, word + (size_t)2 * i, strnlen(word + (size_t)2 * i, 2));
        if (!number_parse(digits, 16, UINT8_MAX, &octet) || strlen(digits) != 2) {
            return false;
        }
        ret[i] = (uint8_t)octet;
    }
    return true;
}

// One that nobody holds though it has a type protects nobody.
static bool is_whole(const struct reservation *book)
{
    const struct reservation_type_facts *type = reservation_type_facts(book->type);
    return book->registrant_count > 0 &&
           (type == NULL || type->is_held_by_all || book->holder[0] != '\0');
}

static bool take_volume(struct reading *r, char *const words[WORD_MAX])
{
    uint8_t uuid[VOLUME_UUID_LEN];
    uint64_t generation, type;
    bool is_right = strlen(words[1]) == UUID_DIGITS && uuid_parse(words[1], uuid) &&
                    number_parse(words[2], 10, UINT32_MAX, &generation) &&
                    number_parse(words[3], 10, RESERVATION_TYPE_COUNT - 1, &type) &&
                    entry_find(r->store, uuid) == NULL;
    if (!is_right || (r->book != NULL && !is_whole(r->book))) {
        r->why = "a volume";
        return false;
    }
    struct entry *entry = entry_create(r->store, uuid);
    if (entry == NULL) {
        r->why = "no memory for a volume";
        return false;
    }
    r->book = &entry->reservation;
    r->book->persists = true;
    r->book->generation = (uint32_t)generation;
    r->book->type = (uint8_t)type;
    return true;
}

static bool take_registrant(struct reading *r, char *const words[WORD_MAX], bool is_holder)
{
    struct reservation *book = r->book;
    uint64_t key;
    text_percent_decode(words[2]);
    bool is_right = book != NULL && book->registrant_count < RESERVATION_REGISTRANT_MAX &&
                    number_parse(words[1], 16, UINT64_MAX, &key) && key != 0 &&
                    words[2][0] != '\0' && strlen(words[2]) < CLIENT_REGISTRANT_MAX &&
                    reservation_registrant(book, words[2]) == NULL &&
                    (!is_holder || (book->type != RESERVATION_NONE && book->holder[0] == '\0'));
    if (!is_right) {
        r->why = "a registrant";
        return false;
    }
    struct registrant *one = &book->registrants[book->registrant_count++];
    one->key = key;
    memcpy(one->name, words[2], strlen(words[2]) + 1);
    if (is_holder) {
        memcpy(book->holder, one->name, sizeof book->holder);
    }
    return true;
}

static unsigned words_of(char *line, char *words[WORD_MAX])
{
    unsigned count = 0;
    char *rest = line;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL; count++) {
        if (count == WORD_MAX) {
            return 0;
        }
        words[count] = word;
    }
    return count;
}

static bool line_take(struct reading *r, char *line)
{
    char *words[WORD_MAX];
    unsigned count = words_of(line, words);
    if (count == 4 && strcmp(words[0], "volume") == 0) {
        return take_volume(r, words);
    }
    bool is_holder = count == 3 && strcmp(words[0], "holder") == 0;
    if (is_holder || (count == 3 && strcmp(words[0], "registrant") == 0)) {
        return take_registrant(r, words, is_holder);
    }
    r->why = "a line";
    return false;
}

bool reservation_store_parse(struct reservation_store *store, char *text, struct why *ret_why)
{
    struct reading r = {.store = store, .why = "its first line"};
    char *rest = text, *line = strsep(&rest, "\n");
    unsigned number = 1;
    bool is_right = line != NULL && strcmp(line, header) == 0;
    while (is_right && (line = strsep(&rest, "\n")) != NULL) {
        number++;
        if (strcmp(line, "end") == 0 && rest != NULL && *rest == '\0') {
            r.why = "the last volume";
            is_right = r.book == NULL || is_whole(r.book);
            break;
        }
        is_right = line_take(&r, line);
    }
    if (is_right && line == NULL) {
        r.why = "its end, which is missing,";
        is_right = false;
    }
    if (!is_right) {
        why_say(ret_why, "line %u: %s is not as a node writes it", number, r.why);
    }
    return is_right;
}
