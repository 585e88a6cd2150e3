#!/usr/bin/env python3
"""What the processes of RTAs may do: what status says of it, and a module that means harm."""

import contextlib

from nbd_client import READ, Client
from serving import Node, case, folder, main, need, os, pathlib, run, until, weft
from modules import build

# Tried in the open of a module, by what it is told: what the process may have given up by then.
HARM = '''
#include <weft/ddm.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_it(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                   void **ret_device, struct weft_ddm_why *ret_why)
{
    char *argv[] = {"true", NULL}, memory[64];
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0) {
        return -EPERM; // its own it may look at
    }
    snprintf(memory, sizeof memory, "/proc/%d/mem", (int)getppid());
    const struct { const char *name; int could; } acts[] = {
        {"signal", kill(getppid(), 0) == 0 || syscall(SYS_tgkill, getppid(), getppid(), 0) == 0},
        {"trace", ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0},
        {"memory", open(memory, O_RDWR) >= 0},
        {"descriptor", syscall(SYS_pidfd_open, getppid(), 0) >= 0},
        {"namespace", unshare(CLONE_NEWUSER) == 0},
        {"mount", mount("none", "/", "tmpfs", MS_REMOUNT | MS_BIND, NULL) == 0 || errno == EINVAL},
        {"limits", prlimit(getppid(), RLIMIT_CORE, NULL, &limit) == 0},
        {"chroot", chroot("/") == 0},
        {"user", setuid(getuid()) == 0},
        {"execute", execv("/bin/true", argv) == 0},
    };
    size_t at = 0;
    at += snprintf(ret_why->text, sizeof ret_why->text, "it could:");
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        if (acts[i].could) {
            at += snprintf(ret_why->text + at, sizeof ret_why->text - at, " %s,", acts[i].name);
        }
    }
    snprintf(ret_why->text + at, sizeof ret_why->text - at, " nothing else");
    return -EPERM;
}
static int probe_it(void *device, struct weft_ddm_profile *ret) { return -1; }
static int submit_it(void *device, struct weft_ddm_command *command) { return -1; }
static void close_it(void *device) { }
WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION, .size = sizeof weft_ddm_module, .name = "harm",
    .open = open_it, .probe = probe_it, .submit = submit_it, .close = close_it};
'''


def confinements(node):
    return {rta['name']: rta['confinement'] for rta in node.status()['rtas']}


@case
def who_drives_one_device_has_what_that_takes():
    with folder() as place:
        run('truncate', '-s', '1M', place / 'disk')
        with Node(f'f={place}/disk', 'r=ram:1M', 'd=delay+null:1M?delay.read=1ms') as node:
            for confinement in confinements(node).values():
                assert (confinement['kind'], confinement['capabilities']) == \
                    ('device', '0' * 16), confinement
            landlock = until(lambda: confinements(node)['f']['landlock'] or not has_landlock())
            assert landlock, landlock


def has_landlock():
    """Does the kernel know it, as the first word of its version call says?"""
    return run('python3', '-c', 'import ctypes; print(ctypes.CDLL(None).syscall(444, 0, 0, 1))'
               ).strip() != '-1'


# Answers each read with what its process can do then: an octet for each act, 1 if it went well.
ACTS = '''
#include <weft/ddm.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static const struct weft_ddm_host *host;
static int open_it(const struct weft_ddm_target *target, const struct weft_ddm_host *its,
                   void **ret_device, struct weft_ddm_why *ret_why)
{
    host = its;
    return 0;
}
static int probe_it(void *device, struct weft_ddm_profile *ret)
{
    ret->volume_len = ret->range_max = 1 << 20;
    ret->block_len = ret->preferred_len = ret->transfer_max = 4096;
    ret->alignment = ret->depth = 1;
    return 0;
}
static int submit_it(void *device, struct weft_ddm_command *command)
{
    struct sysinfo info;
    int kind = PROT_READ | PROT_EXEC, share = MAP_PRIVATE | MAP_ANONYMOUS;
    const char could[] = {sysinfo(&info) == 0, socket(AF_INET, SOCK_STREAM, 0) >= 0,
                          open("/etc/passwd", O_RDONLY) >= 0,
                          mmap(NULL, 4096, kind, share, -1, 0) != MAP_FAILED};
    memcpy(command->data, could, sizeof could);
    host->complete(host->ctx, command, 0);
    return 0;
}
static void close_it(void *device) { }
static const char *const calls[] = {"sysinfo", "no_such_call", NULL};
WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION, .size = SIZE, .name = "acts",
    .open = open_it, .probe = probe_it, .submit = submit_it, .close = close_it, .calls = calls};
'''


def acts(node):
    """The kind of confinement, and what the module could do."""
    with Client(node).go() as client:
        client.request(READ, 0, 4096)
        confinement, = confinements(node).values()
        return confinement['kind'], tuple(client.take(16 + 4096)[16:20])


@case
def a_module_is_held_to_the_calls_that_it_names():
    with folder() as place:
        named = build(place, ACTS.replace('SIZE', 'sizeof weft_ddm_module'), 'named')
        with Node(f'module:{named}') as node:
            assert acts(node) == ('device', (1, 0, 0, 0))
        # As it was compiled before there was that field: what lies beyond its size does not count.
        older = build(place, '#include <stddef.h>\n' +
                      ACTS.replace('SIZE', 'offsetof(struct weft_ddm_driver, calls)'), 'older')
        with Node(f'module:{older}') as node:
            assert acts(node) == ('common', (1, 1, 1, 1))


@case
def who_drives_a_device_in_a_network_has_what_that_takes():
    doors = [f'--{kind}=127.0.0.1:0' for kind in ('nvme-tcp', 'nvme-rdma', 'iscsi', 'iscsi-rdma')]
    with Node(*doors, 'ram:1M') as target:
        uris = [uri for uri in target.status()['volumes'][0]['uris'] if not uri.startswith('nbd')]
        assert len(uris) == len(doors), uris
        for uri in uris:
            with Node(uri) as node, Client(node).go() as client:
                confinement, = confinements(node).values()
                assert (confinement['kind'], confinement['capabilities']) == \
                    ('device', '0' * 16), (uri, confinement)
                client.request(READ, 0, 4096)
                assert client.answer(4096) == (0, bytes(4096))


@case
def who_drives_several_has_what_any_device_takes():
    with Node('--rta=one', 'a=ram:1M', 'b=null:1M') as node:
        confinement, = confinements(node).values()
        assert confinement['kind'] == 'common' and confinement['no_new_privileges'], confinement


@case
def who_is_in_the_host_has_what_that_has():
    with Node('--rta=host', 'ram:1M') as node:
        confinement, = confinements(node).values()
        assert confinement['kind'] == 'none', confinement


def buffers(pid):
    """The files of the pool that the process has mapped, or has a descriptor of."""
    maps = pathlib.Path(f'/proc/{pid}/maps').read_text().splitlines()
    mapped = {line.split()[4] for line in maps if '/memfd:weft-pool' in line}
    opened = set()
    for entry in pathlib.Path(f'/proc/{pid}/fd').iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            if os.readlink(entry).startswith('/memfd:weft-pool'):
                opened.add(str(entry.stat().st_ino))
    return mapped | opened


@case
def each_process_has_the_buffers_of_its_own_requests_alone():
    with Node('a=ram:1M', 'b=ram:1M', 'c=null:1M') as node:
        parts = [buffers(pid) for pid in node.rtas()]
        assert [len(part) for part in parts] == [1, 1, 1] and len(set.union(*parts)) == 3, parts
        assert buffers(node.process.pid) == set.union(*parts), parts
        killed = node.rtas()[0]
        run('kill', '-9', killed)
        until(lambda: len(node.rtas()) == 3 and killed not in node.rtas())
        # They are the volume's, whichever process serves it.
        until(lambda: sorted(map(list, map(buffers, node.rtas()))) == sorted(map(list, parts)))


@case
def buffers_that_nobody_uses_take_no_memory():
    need('qemu-io')

    def memory():
        return node.status()['rtas'][0]['memory']

    with Node('ram:16M') as node:
        run('qemu-io', '-f', 'raw', '-c', 'write -P 1 0 8M', '-c', 'read 0 8M', node.uri())
        until(lambda: memory() < 128 << 10)
        run('qemu-io', '-f', 'raw', '-c', 'read -P 1 0 8M', node.uri())
        assert memory() >= 8 << 20


@case
def a_device_is_opened_again_by_a_successor():
    with Node('ram:1M') as node:
        first, = node.rtas()
        run('kill', '-9', first)
        until(lambda: node.rtas() not in ([], [first]) and
              confinements(node)['ram']['kind'] == 'device')
        assert node.status()['volumes'][0]['state'] == 'ready'


@case
def a_module_that_means_harm_reaches_no_other_process():
    with folder() as place:
        module = build(place, HARM, 'harm')
        result = weft('serve', '--nbd=127.0.0.1:0', '--run=true', f'module:{module}')
        assert 'it could: nothing else' in result.stderr, result.stderr


if __name__ == '__main__':
    main()
