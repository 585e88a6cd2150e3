// The node that tests of RDMA talk to: `weft serve`, a process of its own.
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/runtime.h"

enum {
    HOST_LIMIT_S = 30, // for anything to happen
    HOST_LINE_LEN = 512,
};

extern char **environ;

struct node {
    pid_t pid;
    int output;
    int log; // what it says to the operator
    uint16_t port;
    char name[224]; // of its first volume, as its URI has it
};

static inline void node_weft(char ret[HOST_LINE_LEN])
{
    const char *build = getenv("WEFT_BUILD_DIR");
    snprintf(ret, HOST_LINE_LEN, "%s/weft", build != NULL ? build : "build");
}

// What it prints has the volume's URI, and that its port and its subsystem's name.
static inline void node_read_uri(struct node *node, const char *scheme)
{
    char text[4096] = "", *uri = NULL;
    size_t len = 0;
    while (uri == NULL || strchr(uri, '\n') == NULL) {
        ssize_t got = read(node->output, text + len, sizeof text - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
        text[len] = '\0';
        uri = strstr(text, scheme);
    }
    assert_int_equal(sscanf(uri + strlen(scheme), "%hu/%223[^/\n']", &node->port, node->name), 2);
}

// `door` is where it listens for RDMA, `scheme` how URIs of that begin; `option`: of `weft serve`,
// or NULL.
static inline void node_spawn(struct node *node, const char *door, const char *scheme,
                              const char *volume, const char *option)
{
    char weft[HOST_LINE_LEN];
    int pipes[2];
    posix_spawn_file_actions_t actions;
    node_weft(weft);
    char *const argv[] = {weft, "serve", (char *)door, (char *)volume, (char *)option, NULL};
    assert_int_equal(pipe(pipes), 0);
    node->log = memfd_create("log", MFD_CLOEXEC);
    assert_true(node->log >= 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, node->log, STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipes[0]);
    int error = posix_spawn(&node->pid, weft, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    node->output = pipes[0];
    if (error != 0) {
        node->pid = 0;
        fail_msg("%s: %s", weft, strerror(error));
    }
    node_read_uri(node, scheme);
}

// What it has said so far.
static inline const char *node_said(const struct node *node)
{
    static char text[1 << 16];
    ssize_t len = pread(node->log, text, sizeof text - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    return text;
}

// It ends in order, however badly it was treated. One that was never started has no process: to
// signal number 0 would be to signal the test, and all that runs beside it.
static inline void node_stop(struct node *node)
{
    int status;
    if (node->pid <= 0) {
        return;
    }
    kill(node->pid, SIGTERM);
    assert_int_equal(waitpid(node->pid, &status, 0), node->pid);
    node->pid = 0;
    close(node->output);
    fputs(node_said(node), stderr);
    close(node->log);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// What it says of itself when `weft status` asks, without a process for each look.
static inline const char *node_status(const struct node *node)
{
    static char text[1 << 16];
    char folder[RUNTIME_PATH_MAX], path[RUNTIME_PATH_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = 0;
    ssize_t part;
    assert_int_equal(runtime_folder(folder), 0);
    assert_int_equal(runtime_path(folder, RUNTIME_NODE, node->pid, path), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const struct timeval limit = {.tv_sec = HOST_LIMIT_S};
    int asker = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(asker, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(asker, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(asker, "status\n", 7, MSG_NOSIGNAL), 7);
    while ((part = recv(asker, text + len, sizeof text - 1 - len, 0)) > 0) {
        len += (size_t)part;
    }
    assert_int_equal(part, 0);
    assert_true(len < sizeof text - 1); // or there is more of it
    close(asker);
    text[len] = '\0';
    return text;
}

// The number behind `"key":` in it, in the object of this name; -1: there is no such key.
static inline long long node_number_of(const struct node *node, const char *object, const char *key)
{
    char quoted[64];
    const char *text = node_status(node);
    snprintf(quoted, sizeof quoted, "\"%s\":", object);
    const char *from = object[0] != '\0' ? strstr(text, quoted) : text;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = from != NULL ? strstr(from, quoted) : NULL;
    return at != NULL ? strtoll(at + strlen(quoted), NULL, 10) : -1;
}

// The first of this name.
static inline long long node_number(const struct node *node, const char *key)
{
    return node_number_of(node, "", key);
}

static inline void node_await(const struct node *node, const char *key, long long number)
{
    time_t limit = time(NULL) + HOST_LIMIT_S;
    while (node_number(node, key) != number) {
        if (time(NULL) > limit) {
            fail_msg("%s is %lld, not %lld", key, node_number(node, key), number);
        }
        usleep(20000);
    }
}
