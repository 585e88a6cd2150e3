#!/usr/bin/env python3
"""Drivers as modules: the example, compiled as its users do, and modules that must be refused."""

import clients
from serving import (Node, Skip, case, captive, expect_error, folder, main, need, os, pathlib, run,
                     signal, until, weft)
from judge import SOURCE
from modules import build

MEMORY = SOURCE / 'examples' / 'memory.c'
EMPTY = '#include <weft/ddm.h>\n'
WHOLE = '''
static int open_it(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                   void **ret_device, struct weft_ddm_why *ret_why) { return -1; }
static int probe_it(void *device, struct weft_ddm_profile *ret) { return -1; }
static int submit_it(void *device, struct weft_ddm_command *command) { return -1; }
static void close_it(void *device) { }
WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION, .size = sizeof weft_ddm_module, .name = "whole",
    .open = open_it, .probe = probe_it, .submit = submit_it, .close = close_it};
'''
GROWS = '''
static const struct weft_ddm_host *host;
static uint64_t len = 1 << 20, grow_at_ns;
static int open_it(const struct weft_ddm_target *target, const struct weft_ddm_host *its,
                   void **ret_device, struct weft_ddm_why *ret_why)
{
    host = its;
    grow_at_ns = host->clock_ns(host->ctx) + 500000000;
    return 0;
}
static int probe_it(void *device, struct weft_ddm_profile *ret)
{
    ret->volume_len = ret->range_max = len;
    ret->block_len = ret->preferred_len = ret->transfer_max = 4096;
    ret->alignment = ret->depth = 1;
    return 0;
}
static int submit_it(void *device, struct weft_ddm_command *command) { return -5; }
static uint64_t deadline(void *device) { return grow_at_ns; }
static void poll_it(void *device, uint64_t now_ns)
{
    len = 2 << 20;
    grow_at_ns = WEFT_DDM_NEVER;
    host->changed(host->ctx);
}
static void nothing(void *device) { }
WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION, .size = sizeof weft_ddm_module, .name = "grows",
    .open = open_it, .probe = probe_it, .submit = submit_it, .next_deadline_ns = deadline,
    .poll = poll_it, .drain = nothing, .close = nothing};
'''
# Has one file as its device's lock, which another node may have.
WAITS = '''
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
static int open_it(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                   void **ret_device, struct weft_ddm_why *ret_why)
{
    struct weft_ddm_profile profile = {.size = sizeof profile};
    int fd = open(weft_ddm_parameter(target, "lock"), O_RDWR);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (host->stand_by == NULL) {
            return -EBUSY;
        }
        probe_it(NULL, &profile);
        host->stand_by(host->ctx, &profile);
        flock(fd, LOCK_EX);
    }
    own = host;
    return 0;
}
static int submit_it(void *device, struct weft_ddm_command *command)
{
    if (command->operation == WEFT_DDM_WRITE) {
        own->lost(own->ctx, "somebody took it");
    }
    own->complete(own->ctx, command, 0);
    return 0;
}
static void close_it(void *device) { }
static const char *const keys[] = {"lock", NULL};
WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION, .size = sizeof weft_ddm_module, .name = "waits",
    .parameters = keys, .open = open_it, .probe = probe_it, .submit = submit_it,
    .close = close_it, .can_stand_by = true};
'''
PROBED = '''
static const struct weft_ddm_host *own;
static int probe_it(void *device, struct weft_ddm_profile *ret)
{
    ret->volume_len = ret->range_max = 1 << 20;
    ret->block_len = ret->preferred_len = ret->transfer_max = 4096;
    ret->alignment = ret->depth = 1;
    ret->abilities = WEFT_DDM_CAN_WRITE;
    return 0;
}
'''
LOAD = '__attribute__((constructor)) static void load(void) { %s; }\n'

# The name of a module that must be refused, its source, and words of the reason.
BAD = (
    ('version', EMPTY + WHOLE.replace('WEFT_DDM_VERSION,', '99,'), 'version 99'),
    ('size', EMPTY + WHOLE.replace('sizeof weft_ddm_module', '8'), 'impossible size'),
    ('operation', EMPTY + WHOLE.replace('= submit_it', '= 0 ? submit_it : 0'), 'lacks a name,'),
    ('poll', EMPTY + WHOLE.replace('.open =', '.drain = close_it, .open ='), 'poll without drain'),
    ('symbol', 'int other;\n', 'no weft_ddm_module'),
    ('library', EMPTY + WHOLE + 'void missing(void); void (*use)(void) = missing;\n', 'missing'),
    ('crash', '#include <stdlib.h>\n' + LOAD % 'abort()', 'crashes while it is loaded'),
    ('exit', '#include <stdlib.h>\n' + LOAD % 'exit(0)', 'ends the process that loads it'),
    ('open', EMPTY + WHOLE, 'whole: Operation not permitted'),
)


def refused(uri, *said, words=()):
    expect_error(weft('serve', '--nbd=127.0.0.1:0', '--run=true', *words, uri), 1, *said)


def maps(pid):
    return pathlib.Path(f'/proc/{pid}/maps').read_text()


@case
def the_example_does_as_other_volumes():
    with folder() as place:
        module = build(place, MEMORY)
        clients.nbdcopy_round_trip(place, f'module:{module}?mib=16', 16 << 20)
        clients.qemu_io_writes_zeroes_and_discards(f'module:{module}?mib=16')


@case
def it_is_found_where_the_node_was_started():
    with folder() as place:
        build(place, MEMORY)
        result = weft('serve', '--nbd=127.0.0.1:0', '--run=true', 'module:memory.so?mib=1',
                      cwd=place)
        assert result.returncode == 0, result.stderr


@case
def the_header_is_for_older_c_and_for_cplusplus_too():
    with folder() as place:
        build(place, EMPTY, 'old', '-std=c99', '-pedantic')
        need('c++')
        run('c++', '-fsyntax-only', '-Wall', '-Werror', '-I', pathlib.Path(place, 'include'),
            '-x', 'c++', pathlib.Path(place, 'old.c'))


@case
def what_was_written_outlives_its_process():
    need('qemu-io')
    with folder() as place, Node(f'module:{build(place, MEMORY)}?mib=1') as node:
        run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', node.uri())
        for pid in node.rtas():
            os.kill(pid, signal.SIGKILL)
        run('qemu-io', '-f', 'raw', '-c', 'read -P 5 0 64k', node.uri())
        assert node.status()['rtas'][0]['restarts'] == 1


def state(node):
    return node.status()['volumes'][0]['state']


@case
def a_module_that_can_wait_for_another_node_stands_by():
    need('qemu-io')
    with folder() as place:
        module, lock = build(place, EMPTY + PROBED + WAITS, 'waits'), place / 'lock'
        lock.touch()
        uri = f'module:{module}?lock={lock}&standby=on'
        with Node(uri) as one, Node(uri) as other:
            assert (state(one), state(other)) == ('ready', 'standby')
            assert int(run('nbdinfo', '--size', other.uri())) == 1 << 20
            os.kill(one.rtas()[0], signal.SIGKILL)
            until(lambda: (state(one), state(other)) == ('standby', 'ready'))
            run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', other.uri(), status=1)
            until(lambda: (state(one), state(other)) == ('ready', 'standby'))
            assert 'somebody took it' in other.said(), other.said()


@case
def a_module_that_cannot_stand_by_is_refused_that():
    with folder() as place:
        module = build(place, EMPTY + WHOLE, 'whole')
        refused(f'module:{module}?standby=on', 'the module whole cannot stand by')


@case
def each_of_a_chain_gets_its_own_parameters():
    with folder() as place:
        module = build(place, MEMORY)
        captive('nbdinfo --size "$uri"', f'delay+module:{module}?mib=1&delay.read=1ms')
        refused(f'module:{module}?mib=1&delay.read=1ms', 'has no parameter delay.read')
        refused(f'delay+module:{module}?mib=1&name=x', 'has no parameter name')


@case
def what_its_open_says_is_the_reason():
    with folder() as place:
        refused(f'module:{build(place, MEMORY)}?mib=none', 'memory: mib=none: it must be 1 to')


@case
def only_the_process_of_its_volume_loads_it():
    with folder() as place:
        module = build(place, MEMORY)
        with Node(f'module:{module}?mib=1', 'other=ram:1M') as node:
            assert str(module) not in maps(node.process.pid)
            assert [str(module) in maps(pid) for pid in node.rtas()].count(True) == 1
        refused(f'module:{module}?mib=1', "never loaded into the host's own", words=['--rta=host'])


@case
def a_new_size_is_told():
    """Behind a filter too, and to clients that come afterwards."""
    with folder() as place:
        module = build(place, EMPTY + GROWS, 'grows')
        with Node(f'log+module:{module}?log.file={place}/log') as node:
            assert node.status()['volumes'][0]['size'] in (1 << 20, 2 << 20)
            until(lambda: node.status()['volumes'][0]['size'] == 2 << 20)


@case
def bad_modules_are_refused_by_name():
    with folder() as place:
        for name, source, said in BAD:
            refused(f'module:{build(place, source, name)}', f'{name}.so' if name != 'open' else '',
                    said)
        text = pathlib.Path(place, 'text')
        text.write_text('no object\n')
        for path, said in ((text, 'file too short'), (place, 'it is no file'),
                           (place / 'nothing', 'No such file')):
            refused(f'module:{path}', str(path), said)


@case
def a_module_that_others_may_write_is_refused():
    with folder() as place:
        module = build(place, MEMORY)
        module.chmod(0o777)
        refused(f'module:{module}?mib=1', 'everybody can write it')
        if os.geteuid() != 0:
            raise Skip('not root, so no file can be given to another user')
        module.chmod(0o755)
        os.chown(module, 65534, 65534)
        refused(f'module:{module}?mib=1', 'it belongs to another user')


@case
def a_bad_module_leaves_other_volumes_alone():
    need('qemu-io')
    with folder() as place, Node('--allow-add', 'ram:1M') as node:
        crash = next(build(place, source, name) for name, source, _ in BAD if name == 'crash')
        run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', node.uri('ram'))
        expect_error(weft('rescan', f'--add=bad=module:{crash}', node.process.pid), 1,
                     'crashes while it is loaded')
        run('qemu-io', '-f', 'raw', '-c', 'read -P 5 0 64k', node.uri('ram'))
        rta, = node.status()['rtas']
        assert rta['restarts'] == 0


main()
