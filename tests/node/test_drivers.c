// What every driver says of itself: for help and refusals (node/ddm/registry.c), for who confines
// its process (node/unit/confinement.c), and which calls it has.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "node/ddm/drivers.h"

enum { TEXT_MAX = 2048 };

__attribute__((format(printf, 2, 3))) static void put(char *text, const char *format, ...)
{
    size_t len = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + len, TEXT_MAX - len, format, arguments);
    va_end(arguments);
}

static void put_names(char *text, const char *what, const char *const *names)
{
    put(text, " %s", what);
    for (unsigned i = 0; names != NULL && names[i] != NULL; i++) {
        put(text, "%c%s", i == 0 ? '=' : ',', names[i]);
    }
}

static void put_if(char *text, bool is, const char *word)
{
    put(text, "%s%s", is ? " " : "", is ? word : "");
}

static void facts_of(const struct ddm_driver *d, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "%s:%s", d->name, d->object != NULL ? d->object : "");
    put_if(text, d->is_filter, "filter");
    put_if(text, d->needs_process, "process");
    put_if(text, d->takes_all, "all");
    put_if(text, d->may_lose, "loses");
    put_if(text, d->can_stand_by, "standby");
    put_if(text, d->keeps_pages, "pages");
    put_if(text, d->makes_threads, "threads");
    put_if(text, d->reads_files, "files");
    put_if(text, d->format != NULL, "format");
    put(text, " capabilities=%llx", (unsigned long long)d->capabilities);
    put_names(text, "keys", d->parameters);
    put_names(text, "calls", d->calls);
    put_if(text, d->has_known_calls != NULL, "asks");
    put(text, " has");
    put_if(text, d->open != NULL, "open");
    put_if(text, d->probe != NULL, "probe");
    put_if(text, d->submit != NULL, "submit");
    put_if(text, d->flush_queue != NULL, "flush");
    put_if(text, d->poll_fd != NULL, "fd");
    put_if(text, d->next_deadline != NULL, "deadline");
    put_if(text, d->poll != NULL, "poll");
    put_if(text, d->look_on != NULL, "look");
    put_if(text, d->drain != NULL, "drain");
    put_if(text, d->close != NULL, "close");
}

// Those of libibverbs, librdmacm and the threads of a card.
#define RNIC_CALLS                                                                    \
    "socket,connect,bind,shutdown,getsockopt,setsockopt,getsockname,getpeername,"     \
    "sendto,sendmmsg,recvfrom,dup2,dup3,readlink,uname,ioctl,epoll_create1,"          \
    "timerfd_create,timerfd_settime,recvmmsg,socketpair,accept4,pipe2,memfd_create,"  \
    "ftruncate,preadv2,pread64,pwrite64,getuid,geteuid,access,readlinkat,getdents64," \
    "prlimit64"

static const struct {
    const struct ddm_driver *driver;
    const char *facts;
} drivers[] = {
    {&ddm_ata, "ata:PATH format capabilities=20000 keys calls=ioctl has open probe submit fd "
               "poll drain close"},
    {&ddm_file, "file:PATH standby capabilities=0 keys=direct,engine calls=preadv2,pwritev2,"
                "fdatasync,fallocate,ioctl,io_uring_enter,getrusage has open probe submit "
                "flush fd poll drain close"},
    {&ddm_iscsi, "iscsi://HOST[:PORT]/TARGET/LUN files format capabilities=0 keys=initiator,"
                 "timeout,patience,target_user,target_secret calls=socket,connect,bind,shutdown,"
                 "dup2,dup3,getsockopt,setsockopt,getsockname,sendto,sendmmsg,recvfrom,readlink,"
                 "uname,getpeername,ioctl has open probe submit flush fd deadline poll drain "
                 "close"},
    {&ddm_iscsi_rdma,
     "iscsi+rdma://HOST[:PORT]/TARGET/LUN pages threads files format capabilities=0 "
     "keys=initiator,timeout,patience,target_user,target_secret calls=" RNIC_CALLS
     " asks has open probe submit flush fd deadline poll drain close"},
    {&ddm_null, "null:SIZE capabilities=0 keys calls has open probe submit fd poll drain close"},
    {&ddm_nvme, "nvme+rdma://HOST[:PORT]/NQN[/NSID] pages threads files capabilities=0 "
                "keys=depth,keep_alive,paths,patience calls=" RNIC_CALLS
                " asks has open probe submit flush fd deadline poll look drain close"},
    {&ddm_nvme_tcp, "nvme+tcp://HOST[:PORT]/NQN[/NSID] pages threads files capabilities=0 "
                    "keys=depth,keep_alive,paths,patience calls=socket,connect,bind,shutdown,"
                    "getsockopt,setsockopt,getsockname,getpeername,sendto,sendmmsg,recvfrom,dup2,"
                    "dup3,readlink,uname,ioctl,epoll_create1,timerfd_create,timerfd_settime has "
                    "open probe submit flush fd deadline poll drain close"},
    {&ddm_ram, "ram:SIZE capabilities=0 keys calls=fallocate has open probe submit fd poll "
               "drain close"},
    {&ddm_sg, "sg:PATH format capabilities=20000 keys calls=ioctl has open probe submit "
              "flush fd deadline poll drain close"},
    {&ddm_delay, "delay: filter capabilities=0 keys=delay,delay.read,delay.write,delay.flush "
                 "calls has open probe submit flush fd deadline poll drain close"},
    {&ddm_error, "error: filter capabilities=0 keys=error,error.read,error.write,error.flush,"
                 "error.as,error.file,error.seed calls=access,faccessat,faccessat2 has open "
                 "probe submit flush fd deadline poll drain close"},
    {&ddm_log, "log: filter capabilities=0 keys=log.file calls has open probe submit flush fd "
               "deadline poll drain close"},
    {&ddm_lose, "lose: filter loses capabilities=0 keys=lose,lose.late,lose.seed calls has "
                "open probe submit flush fd deadline poll drain close"},
};

static void a_driver_says_what_it_is_and_needs(void **state)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        char text[TEXT_MAX];
        facts_of(drivers[i].driver, text);
        assert_string_equal(text, drivers[i].facts);
    }
}

static void each_is_of_this_version_and_has_words_for_help(void **state)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        const struct ddm_driver *d = drivers[i].driver;
        assert_int_equal(d->version, DDM_VERSION);
        assert_int_equal(d->self_size, sizeof *d);
        assert_true(d->summary != NULL && strlen(d->summary) > 8);
        assert_true(d->is_filter || (d->fence != NULL && strlen(d->fence) > 8));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_says_what_it_is_and_needs),
        cmocka_unit_test(each_is_of_this_version_and_has_words_for_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
