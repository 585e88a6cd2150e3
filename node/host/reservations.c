#include "node/host/reservations.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "node/cta/cta.h"
#include "node/loop/loop.h"
#include "node/reservation/store.h"

enum { TEXT_MAX = 64 << 20 };

struct host_reservations {
    struct reservation_store *store;
    struct cta *cta;
    char *path; // NULL: nothing is written
    int bell;   // the thread rings
    struct loop_watch *watch;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; // of the rest
    pthread_cond_t change;
    bool is_ending;
    char *text; // to be written; NULL: nothing is
    uint64_t asked, done;
    bool is_stored; // `done` is
};

/* ---- the file -------------------------------------------------------------------------------- */

static bool folder_sync(const char *path)
{
    char *copy = strdup(path);
    int fd = copy != NULL ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool is_done = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    free(copy);
    return is_done;
}

static bool write_all(int fd, const char *text)
{
    size_t len = strlen(text), at = 0;
    while (at < len) {
        ssize_t written = write(fd, text + at, len - at);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        at += written > 0 ? (size_t)written : 0;
    }
    return fsync(fd) == 0;
}

static bool file_replace(const char *path, const char *text)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.new", path) < 0) {
        return false;
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_done = fd >= 0 && write_all(fd, text);
    if (fd >= 0) {
        is_done = close(fd) == 0 && is_done;
    }
    is_done = is_done && rename(beside, path) == 0 && folder_sync(path);
    free(beside);
    return is_done;
}

// NULL without memory, or with errno.
static char *file_read(FILE *in)
{
    char *text = NULL;
    size_t capacity = 0;
    ssize_t len = getdelim(&text, &capacity, '\0', in);
    if (len < 0 && !ferror(in)) { // it is empty
        text = text != NULL ? text : malloc(1);
        if (text != NULL) {
            *text = '\0';
        }
    } else if (len < 0 || len > TEXT_MAX) {
        free(text);
        text = NULL;
    }
    return text;
}

// No file is no reservation.
static bool file_take(struct host_reservations *r, struct why *ret_why)
{
    struct why why;
    FILE *in = fopen(r->path, "re");
    if (in == NULL && errno == ENOENT) {
        return true;
    }
    char *text = in != NULL ? file_read(in) : NULL;
    bool is_taken = false;
    if (text == NULL) {
        why_say(ret_why, "it cannot be read: %s", strerror(errno));
    } else if (!(is_taken = reservation_store_parse(r->store, text, &why))) {
        why_say(ret_why, "%.400s", why.text);
    }
    free(text);
    if (in != NULL) {
        fclose(in);
    }
    return is_taken;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *write_what_comes(void *ctx)
{
    struct host_reservations *r = ctx;
    pthread_mutex_lock(&r->lock);
    while (!r->is_ending || r->text != NULL) {
        if (r->text == NULL) {
            pthread_cond_wait(&r->change, &r->lock);
            continue;
        }
        char *text = r->text;
        uint64_t number = r->asked, one = 1;
        r->text = NULL;
        pthread_mutex_unlock(&r->lock);
        bool is_stored = text[0] != '\0' && file_replace(r->path, text);
        free(text);
        pthread_mutex_lock(&r->lock);
        r->done = number;
        r->is_stored = is_stored;
        if (write(r->bell, &one, sizeof one) < 0) { // it rings already
            continue;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void on_bell(void *ctx, uint32_t events)
{
    struct host_reservations *r = ctx;
    uint64_t count;
    if (read(r->bell, &count, sizeof count) < 0) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    uint64_t done = r->done;
    bool is_stored = r->is_stored;
    pthread_mutex_unlock(&r->lock);
    cta_reservations_stored(r->cta, done, is_stored);
}

static void put(void *ctx, const char *line)
{
    fprintf(ctx, "%s\n", line);
}

// What is not written yet is not written any more: this is newer. Without memory for it nothing is
// written, and that is told.
uint64_t host_reservations_write(void *ctx)
{
    struct host_reservations *r = ctx;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    if (out != NULL) {
        reservation_store_emit(r->store, put, out);
        fclose(out);
    }
    pthread_mutex_lock(&r->lock);
    free(r->text);
    r->text = text != NULL ? text : strdup("");
    uint64_t number = ++r->asked;
    pthread_cond_signal(&r->change);
    pthread_mutex_unlock(&r->lock);
    return number;
}

/* ---- its life -------------------------------------------------------------------------------- */

// Signals are the loop's.
static bool thread_begin(struct host_reservations *r)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r->has_thread = pthread_create(&r->thread, NULL, write_what_comes, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r->has_thread;
}

static bool writing_begin(struct host_reservations *r, struct loop *loop, const char *path,
                          struct why *ret_why)
{
    r->path = strdup(path);
    r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->path == NULL || r->bell < 0) {
        why_say(ret_why, "%s", strerror(errno));
        return false;
    }
    if (!file_take(r, ret_why)) {
        return false;
    }
    r->watch = loop_watch(loop, r->bell, EPOLLIN, on_bell, r);
    if (r->watch == NULL || !thread_begin(r)) {
        why_say(ret_why, "no memory, or no thread, to write it");
        return false;
    }
    return true;
}

struct host_reservations *host_reservations_create(struct loop *loop, const char *path,
                                                   struct why *ret_why)
{
    struct host_reservations *r = calloc(1, sizeof *r);
    if (r == NULL) {
        why_say(ret_why, "no memory");
        return NULL;
    }
    r->bell = -1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->change, NULL);
    r->store = reservation_store_create(path[0] != '\0');
    if (r->store == NULL) {
        why_say(ret_why, "no memory");
    }
    if (r->store == NULL || (path[0] != '\0' && !writing_begin(r, loop, path, ret_why))) {
        host_reservations_destroy(r);
        return NULL;
    }
    return r;
}

void host_reservations_destroy(struct host_reservations *r)
{
    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->is_ending = true;
    pthread_cond_signal(&r->change);
    pthread_mutex_unlock(&r->lock);
    if (r->has_thread) {
        pthread_join(r->thread, NULL);
    }
    loop_unwatch(r->watch);
    if (r->bell >= 0) {
        close(r->bell);
    }
    reservation_store_destroy(r->store);
    pthread_cond_destroy(&r->change);
    pthread_mutex_destroy(&r->lock);
    free(r->text);
    free(r->path);
    free(r);
}

struct reservation_store *host_reservations_store(struct host_reservations *r)
{
    return r->store;
}

void host_reservations_tell(struct host_reservations *r, struct cta *cta)
{
    r->cta = cta;
}
