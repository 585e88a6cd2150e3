#include "node/reservation/book.h"

#include <stdio.h>
#include <string.h>

#include "node/interface/reservation.h"

// What is asked for, and who asks.
struct asker {
    struct reservation *book;
    const char *name;
    struct registrant *registrant; // NULL: it is not registered
    const struct reservation_wish *wish;
    const struct book_listener *listener;
};

static bool is_of_all(const struct reservation *book)
{
    const struct reservation_type_facts *type = reservation_type_facts(book->type);
    return type != NULL && type->is_held_by_all;
}

static void tell(const struct asker *a, const char *name, enum reservation_event event)
{
    a->listener->tell(a->listener->ctx, name, event);
}

// All registrants but the asker.
static void tell_others(const struct asker *a, enum reservation_event event)
{
    for (unsigned i = 0; i < a->book->registrant_count; i++) {
        if (strcmp(a->book->registrants[i].name, a->name) != 0) {
            tell(a, a->book->registrants[i].name, event);
        }
    }
}

static void hold(struct reservation *book, const char *name, unsigned type)
{
    book->type = (uint8_t)type;
    snprintf(book->holder, sizeof book->holder, "%s", name);
}

// Who could use the volume as a registrant is told.
static void let_go(const struct asker *a)
{
    bool is_told = reservation_type_facts(a->book->type)->is_for_registrants;
    hold(a->book, "", RESERVATION_NONE);
    if (is_told) {
        tell_others(a, RESERVATION_RELEASED);
    }
}

/* ---- registering ----------------------------------------------------------------------------- */

static void unregister(const struct asker *a)
{
    struct reservation *book = a->book;
    bool was_holder = reservation_is_held_by(book, a->name);
    bool is_last = book->registrant_count == 1;
    *a->registrant = book->registrants[--book->registrant_count];
    if (was_holder && (is_last || !is_of_all(book))) {
        let_go(a);
    }
}

static enum reservation_outcome store_wish(const struct asker *a)
{
    bool is_wished = a->wish->persistence == RESERVATION_PERSISTS;
    if (is_wished && !a->book->can_persist) {
        return RESERVATION_NO_STORE;
    }
    if (a->wish->persistence != RESERVATION_PERSISTENCE_AS_IT_IS) {
        a->book->persists = is_wished;
    }
    return RESERVATION_DONE;
}

static void register_key(const struct asker *a)
{
    struct reservation *book = a->book;
    book->generation++;
    if (a->wish->new_key == 0) {
        unregister(a);
    } else if (a->registrant != NULL) {
        a->registrant->key = a->wish->new_key;
    } else {
        struct registrant *r = &book->registrants[book->registrant_count++];
        r->key = a->wish->new_key;
        snprintf(r->name, sizeof r->name, "%s", a->name);
    }
}

static enum reservation_outcome act_register(const struct asker *a)
{
    const struct reservation_wish *wish = a->wish;
    uint64_t key = a->registrant != NULL ? a->registrant->key : 0;
    if (wish->action == RESERVATION_REGISTER && wish->key != key) {
        return RESERVATION_CONFLICT;
    }
    bool is_new = a->registrant == NULL && wish->new_key != 0;
    if (is_new && a->book->registrant_count == RESERVATION_REGISTRANT_MAX) {
        return RESERVATION_FULL;
    }
    if (!is_new && a->registrant == NULL) { // as SPC-4's Register behaviors have it
        return RESERVATION_DONE;
    }
    enum reservation_outcome outcome = store_wish(a);
    if (outcome == RESERVATION_DONE) {
        register_key(a);
    }
    return outcome;
}

/* ---- the reservation ------------------------------------------------------------------------- */

static enum reservation_outcome act_acquire(const struct asker *a)
{
    struct reservation *book = a->book;
    if (reservation_type_facts(a->wish->type) == NULL) {
        return RESERVATION_BAD_TYPE;
    }
    if (book->type != RESERVATION_NONE) {
        bool is_same = reservation_is_held_by(book, a->name) && book->type == a->wish->type;
        return is_same ? RESERVATION_DONE : RESERVATION_CONFLICT;
    }
    hold(book, a->name, a->wish->type);
    return RESERVATION_DONE;
}

static enum reservation_outcome act_release(const struct asker *a)
{
    if (!reservation_is_held_by(a->book, a->name)) {
        return RESERVATION_DONE;
    }
    if (a->wish->type != a->book->type) {
        return RESERVATION_OTHER_TYPE;
    }
    let_go(a);
    return RESERVATION_DONE;
}

static enum reservation_outcome act_clear(const struct asker *a)
{
    struct reservation *book = a->book;
    tell_others(a, RESERVATION_CLEARED);
    book->registrant_count = 0;
    book->generation++;
    hold(book, "", RESERVATION_NONE);
    return RESERVATION_DONE;
}

// Removes the registrants with the key; with key 0, all. The asker stays.
static unsigned remove_others(const struct asker *a)
{
    struct reservation *book = a->book;
    unsigned kept = 0, count = book->registrant_count;
    for (unsigned i = 0; i < count; i++) {
        struct registrant *r = &book->registrants[i];
        bool is_own = strcmp(r->name, a->name) == 0;
        if (is_own || (a->wish->new_key != 0 && r->key != a->wish->new_key)) {
            book->registrants[kept++] = *r;
            continue;
        }
        tell(a, r->name, RESERVATION_REGISTRATION_PREEMPTED);
        if (a->wish->action == RESERVATION_PREEMPT_AND_ABORT) {
            tell(a, r->name, RESERVATION_TASKS_ABORTED);
        }
    }
    book->registrant_count = kept;
    return count - kept;
}

// Does what is held become the asker's?
static bool takes_over(const struct asker *a)
{
    const struct reservation *book = a->book;
    const struct registrant *holder = reservation_registrant(book, book->holder);
    if (is_of_all(book)) {
        return a->wish->new_key == 0;
    }
    return book->type != RESERVATION_NONE && holder != NULL && holder->key == a->wish->new_key;
}

static enum reservation_outcome act_preempt(const struct asker *a)
{
    struct reservation *book = a->book;
    bool takes = takes_over(a), is_other_type = book->type != a->wish->type;
    if (a->wish->new_key == 0 && !is_of_all(book)) {
        return RESERVATION_BAD_KEY;
    }
    if (takes && reservation_type_facts(a->wish->type) == NULL) {
        return RESERVATION_BAD_TYPE;
    }
    bool is_own_key = a->registrant->key == a->wish->new_key;
    if (remove_others(a) == 0 && !takes && !is_own_key) {
        return RESERVATION_CONFLICT;
    }
    book->generation++;
    if (takes) {
        hold(book, a->name, a->wish->type);
        if (is_other_type) {
            tell_others(a, RESERVATION_RELEASED);
        }
    }
    return RESERVATION_DONE;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct {
    enum reservation_outcome (*act)(const struct asker *a);
    bool is_for_registrants;
} actions[RESERVATION_ACTION_COUNT] = {
    [RESERVATION_REGISTER] = {act_register, false},
    [RESERVATION_REGISTER_ANY] = {act_register, false},
    [RESERVATION_ACQUIRE] = {act_acquire, true},
    [RESERVATION_RELEASE] = {act_release, true},
    [RESERVATION_CLEAR] = {act_clear, true},
    [RESERVATION_PREEMPT] = {act_preempt, true},
    [RESERVATION_PREEMPT_AND_ABORT] = {act_preempt, true},
};

enum reservation_outcome book_act(struct reservation *book, const char *name, uint32_t connection,
                                  const struct reservation_wish *wish,
                                  const struct book_listener *listener)
{
    struct asker a = {.book = book, .name = name, .wish = wish, .listener = listener};
    const struct registrant *found = reservation_registrant(book, name);
    a.registrant = found != NULL ? &book->registrants[found - book->registrants] : NULL;
    bool is_registered = a.registrant != NULL && a.registrant->key == wish->key;
    bool is_claimed = book->claimed_by != 0 && book->claimed_by != connection;
    if (is_claimed || (actions[wish->action].is_for_registrants && !is_registered)) {
        return RESERVATION_CONFLICT;
    }
    return actions[wish->action].act(&a);
}

bool book_claim(struct reservation *book, uint32_t connection)
{
    bool is_free = book->claimed_by == 0 || book->claimed_by == connection;
    bool may = is_free && book->registrant_count == 0;
    book->claimed_by = may ? connection : book->claimed_by;
    return may;
}
