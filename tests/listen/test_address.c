// Addresses that a node listens on, and whom it takes a peer for.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "listen/address.h"

static char folder[] = "/tmp/weft-address.XXXXXX", path[96];
static struct why why;

static int listen_on(const char *text)
{
    why = (struct why){""};
    return address_listen(text, NULL, path, sizeof path, &why);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    return rmdir(folder);
}

static int connect_to(int listener)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    int fd = socket(addr.ss_family, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
    return fd;
}

/* ---- listening ------------------------------------------------------------------------------- */

static void what_is_no_address_is_refused_in_words(void **state)
{
    static const struct {
        const char *text;
        int error;
        const char *said;
    } table[] = {
        {"", -EINVAL, "not HOST:PORT, unix:PATH or fd:NAME"},
        {"127.0.0.1", -EINVAL, "not HOST:PORT, unix:PATH or fd:NAME"},
        {"[::1", -EINVAL, "not HOST:PORT, unix:PATH or fd:NAME"},
        {"::1:10809", -EINVAL, "an IPv6 number stands in brackets"},
        {"127.0.0.1:65536", -EINVAL, "no such port"},
        {"127.0.0.1:99999999999999999999", -EINVAL, "no such port"},
        {"127.0.0.1:nosuchservice", -EADDRNOTAVAIL, "127.0.0.1:nosuchservice: "},
        {"192.0.2.1:1", -EADDRNOTAVAIL, "192.0.2.1:1: "}, // nobody's
        {"unix:/nonexistent/socket", -ENOENT, "/nonexistent/socket: No such file"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(listen_on(table[i].text), table[i].error);
        if (strstr(why.text, table[i].said) == NULL) {
            fail_msg("'%s' is not in '%s'", table[i].said, why.text);
        }
        assert_string_equal(path, "");
    }
}

static void a_free_port_is_told(void **state)
{
    char text[64];
    struct address_end end;
    int fd = listen_on("127.0.0.1:0");
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_true(address_of_own_end(fd, &end));
    assert_true(!end.is_6 && !end.is_wildcard && atoi(end.port) > 0);
    assert_string_equal(end.host, "127.0.0.1");
    address_of_listener(fd, text, sizeof text);
    assert_memory_equal(text, "127.0.0.1:", 10);
    assert_string_equal(text + 10, end.port);
    assert_int_equal(listen_on(text), -EADDRINUSE);
    close(fd);
}

static void an_address_without_a_port_has_that_of_its_protocol(void **state)
{
    struct address_end end;
    int fd = address_listen("127.0.0.1", "0", path, sizeof path, &why);
    assert_true(fd >= 0);
    assert_true(address_of_own_end(fd, &end));
    assert_string_equal(end.host, "127.0.0.1");
    close(fd);
    fd = address_listen("127.0.0.1:0", "65536", path, sizeof path, &why); // its own comes first
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(address_listen("127.0.0.1", "65536", path, sizeof path, &why), -EINVAL);
    assert_int_equal(address_listen("", "0", path, sizeof path, &why), -EINVAL);
    assert_non_null(strstr(why.text, "not HOST, HOST:PORT, unix:PATH or fd:NAME"));
}

// No host stands for every address; users are shown one that they can use here.
static void a_wildcard_is_shown_as_the_loopback_address(void **state)
{
    static const struct {
        const char *text, *shown;
        bool is_6;
    } table[] = {{"0.0.0.0:0", "127.0.0.1", false}, {"[::]:0", "::1", true}};
    for (unsigned i = 0; i < 2; i++) {
        struct address_end end;
        int fd = listen_on(table[i].text);
        if (fd < 0 && table[i].is_6) {
            print_message("SKIP: no IPv6 here\n");
            skip();
        }
        assert_true(address_of_own_end(fd, &end));
        assert_true(end.is_wildcard);
        assert_int_equal(end.is_6, table[i].is_6);
        assert_string_equal(end.host, table[i].shown);
        close(fd);
    }
}

// The connections of the node that ran there before linger for a minute; its port does not.
static void a_port_is_had_again_while_old_connections_linger(void **state)
{
    char text[64], octet;
    int first = listen_on("127.0.0.1:0");
    address_of_listener(first, text, sizeof text);
    int client = connect_to(first);
    int accepted = accept(first, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted); // who closes first lingers
    assert_int_equal(read(client, &octet, 1), 0);
    close(client);
    close(first);
    int second = listen_on(text);
    assert_true(second >= 0);
    close(second);
}

/* ---- sockets with a path --------------------------------------------------------------------- */

static void a_socket_that_nobody_listens_at_is_taken_over(void **state)
{
    char text[96];
    snprintf(text, sizeof text, "unix:%s/socket", folder);
    int first = listen_on(text);
    assert_true(first >= 0);
    assert_string_equal(path, text + 5);
    assert_int_equal(listen_on(text), -EADDRINUSE);
    close(first); // as a process that was killed leaves it
    int second = listen_on(text);
    assert_true(second >= 0);
    close(connect_to(second));
    close(second);
    unlink(text + 5);
    int fd = open(text + 5, O_CREAT | O_WRONLY, 0600); // what is no socket is somebody's file
    assert_int_equal(listen_on(text), fd >= 0 ? -EADDRINUSE : 0);
    assert_int_equal(access(text + 5, F_OK), 0);
    close(fd);
    unlink(text + 5);
}

static int next_descriptor(void)
{
    int fd = dup(STDOUT_FILENO);
    close(fd);
    return fd;
}

static void who_looks_whether_anybody_listens_keeps_no_descriptor(void **state)
{
    char text[96];
    snprintf(text, sizeof text, "unix:%s/socket", folder);
    int first = listen_on(text);
    int next = next_descriptor();
    assert_int_equal(listen_on(text), -EADDRINUSE);
    assert_int_equal(next_descriptor(), next);
    close(first);
    unlink(text + 5);
}

// It is stopped, say, and has no room for one more: who asks would wait with it.
static void a_socket_whose_listener_accepts_nobody_is_somebodys(void **state)
{
    char text[96];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), callers[8];
    unsigned count = 0;
    snprintf(text, sizeof text, "unix:%s/socket", folder);
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", text + 5);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 0), 0);
    do {
        assert_true(count < 8);
        callers[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    } while (connect(callers[count++], (struct sockaddr *)&addr, sizeof addr) == 0);
    assert_int_equal(errno, EAGAIN);
    alarm(20); // who waited would do so for ever
    assert_int_equal(listen_on(text), -EADDRINUSE);
    alarm(0);
    assert_int_equal(access(text + 5, F_OK), 0);
    while (count > 0) {
        close(callers[--count]);
    }
    close(fd);
    unlink(text + 5);
}

static void who_made_a_path_takes_it_away(void **state)
{
    char text[96];
    snprintf(text, sizeof text, "unix:%s/socket", folder);
    int fd = listen_on(text);
    assert_true(fd >= 0);
    assert_int_equal(access(path, F_OK), 0);
    address_unlink("fd:somebody", path); // it was passed: its maker sees to it
    assert_int_equal(access(path, F_OK), 0);
    address_unlink(text, ""); // it has no path
    assert_int_equal(access(path, F_OK), 0);
    address_unlink(text, path);
    assert_int_equal(access(path, F_OK), -1);
    close(fd);
}

static void a_path_is_as_long_as_sockets_have(void **state)
{
    struct sockaddr_un addr;
    char text[256], room[256];
    int len = snprintf(text, sizeof text, "unix:%s/", folder);
    memset(text + len, 'x', sizeof text - (size_t)len);
    text[5 + sizeof addr.sun_path] = '\0';
    assert_int_equal(address_listen(text, NULL, room, sizeof room, &why), -ENAMETOOLONG);
    text[5 + sizeof addr.sun_path - 1] = '\0';
    int fd = address_listen(text, NULL, room, sizeof room, &why);
    assert_true(fd >= 0);
    assert_string_equal(room, text + 5);
    close(fd);
    unlink(room);
    assert_int_equal(address_listen(text, NULL, room, sizeof addr.sun_path - 1, &why),
                     -ENAMETOOLONG);
}

/* ---- resolved -------------------------------------------------------------------------------- */

static void a_host_may_come_without_a_port(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } table[] = {{"127.0.0.1", "127.0.0.1", "4420"},
                 {"127.0.0.1:7", "127.0.0.1", "7"},
                 {"[::1]", "::1", "4420"},
                 {"[::1]:7", "::1", "7"},
                 {"::1", "::1", "4420"}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sockaddr_storage addr;
        struct address_end end;
        assert_int_equal(address_resolve(table[i].text, "4420", &addr, &why), 0);
        assert_true(address_end_of((struct sockaddr *)&addr, &end));
        assert_string_equal(end.host, table[i].host);
        assert_string_equal(end.port, table[i].port);
    }
    static const char *const bad[] = {"", "[::1", "127.0.0.1:65536", "127.0.0.1:x y"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sockaddr_storage addr;
        assert_true(address_resolve(bad[i], "4420", &addr, &why) < 0);
    }
}

/* ---- peers ----------------------------------------------------------------------------------- */

static const struct sockaddr *in_4(const char *text, struct sockaddr_storage *ret)
{
    struct sockaddr_in *in = (struct sockaddr_in *)ret;
    *in = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, text, &in->sin_addr), 1);
    return (const struct sockaddr *)ret;
}

static const struct sockaddr *in_6(const char *text, struct sockaddr_storage *ret)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
    *in6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
    assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
    return (const struct sockaddr *)ret;
}

// A host may have all addresses of an IPv6 network: they share what one client may have.
static void who_shares_what_a_client_may_have(void **state)
{
    struct sockaddr_storage addr;
    const struct sockaddr_un local = {.sun_family = AF_UNIX};
    char host[64];
    address_host(in_4("192.0.2.7", &addr), host, sizeof host);
    assert_string_equal(host, "192.0.2.7");
    address_host(in_6("2001:db8:1:2:3:4:5:6", &addr), host, sizeof host);
    assert_string_equal(host, "2001:db8:1:2::/64");
    address_host(in_6("::ffff:192.0.2.7", &addr), host, sizeof host);
    assert_string_equal(host, "192.0.2.7");
    address_host((const struct sockaddr *)&local, host, sizeof host);
    assert_string_equal(host, "unix");
    address_host(NULL, host, sizeof host);
    assert_string_equal(host, "unknown");
}

static void a_peer_is_told_by_its_address_or_its_process(void **state)
{
    char text[TEXT_ADDRESS_MAX], host[64], wanted[64];
    int pair[2], listener = listen_on("127.0.0.1:0");
    int client = connect_to(listener), accepted = accept(listener, NULL, NULL);
    struct address_end end;
    assert_true(address_of_own_end(client, &end));
    snprintf(wanted, sizeof wanted, "127.0.0.1:%s", end.port);
    address_of_peer(accepted, text);
    assert_string_equal(text, wanted);
    address_host_of_peer(accepted, host, sizeof host);
    assert_string_equal(host, "127.0.0.1");
    address_of_peer(listener, text); // has none
    assert_string_equal(text, "unknown");
    address_host_of_peer(listener, host, sizeof host);
    assert_string_equal(host, "unknown");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(wanted, sizeof wanted, "unix, process %d", (int)getpid());
    address_of_peer(pair[0], text);
    assert_string_equal(text, wanted);
    assert_false(address_of_own_end(pair[0], &end));
    address_of_listener(pair[0], text, sizeof text);
    assert_string_equal(text, "");
    const int fds[] = {listener, client, accepted, pair[0], pair[1]};
    for (unsigned i = 0; i < 5; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_address_is_refused_in_words),
        cmocka_unit_test(a_free_port_is_told),
        cmocka_unit_test(an_address_without_a_port_has_that_of_its_protocol),
        cmocka_unit_test(a_wildcard_is_shown_as_the_loopback_address),
        cmocka_unit_test(a_port_is_had_again_while_old_connections_linger),
        cmocka_unit_test(a_socket_that_nobody_listens_at_is_taken_over),
        cmocka_unit_test(who_looks_whether_anybody_listens_keeps_no_descriptor),
        cmocka_unit_test(a_socket_whose_listener_accepts_nobody_is_somebodys),
        cmocka_unit_test(who_made_a_path_takes_it_away),
        cmocka_unit_test(a_path_is_as_long_as_sockets_have),
        cmocka_unit_test(a_host_may_come_without_a_port),
        cmocka_unit_test(who_shares_what_a_client_may_have),
        cmocka_unit_test(a_peer_is_told_by_its_address_or_its_process),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
