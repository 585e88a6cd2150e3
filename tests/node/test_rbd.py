#!/usr/bin/env python3
"""The driver rbd, on a real cluster of one monitor and one OSD: the contract of drivers, the fence,
what becomes of volumes when the cluster, its daemons or the lock are gone for a while, two nodes
with one image."""

import contextlib
import hashlib
import itertools
import re
import time

import clients
import tapnet
from ceph import Cluster
from judge import BUILD
from nvme_host import session
from serving import (LIMIT, Node, Nvme, Skip, case, captive, count, expect_error, folder, main,
                     need, os, pathlib, run, signal, subprocess, until, weft)

PROGRAM = BUILD / 'tests' / 'test_node_ddm'
STACK = contextlib.ExitStack()
CLUSTER = []


def cluster():
    """One for all cases, made by the first."""
    if not CLUSTER:
        if not (BUILD / 'lib' / 'weft-rbd.so').exists():
            raise Skip('weft was built without librbd (librbd-dev)')
        CLUSTER.append(STACK.enter_context(Cluster()))
    return CLUSTER[0]


def qemu_io(node, *commands, status=0):
    need('qemu-io')
    words = [word for command in commands for word in ('-c', command)]
    return run('qemu-io', '-f', 'raw', *words, node.uri(), status=status)


def writer(node, *commands):
    """A client of its own, which is not waited for."""
    need('qemu-io')
    words = [word for command in commands for word in ('-c', command)]
    return subprocess.Popen(['qemu-io', '-f', 'raw', *words, node.uri()],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def contents(ceph, name):
    path = ceph.place / 'export'
    ceph.rbd('export', '--no-progress', f'rbd/{name}', path)
    data = path.read_bytes()
    path.unlink()
    return data


def kill_rtas(node):
    """Whom it has killed."""
    killed = node.rtas()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    return set(killed)


def kill(node):
    """With its RTA, which has no time to give anything back."""
    pid, = node.rtas()
    os.kill(pid, signal.SIGSTOP)
    node.process.kill()
    os.kill(pid, signal.SIGKILL)
    node.process.wait()


def rta(node):
    return node.status()['rtas'][0]


def in_flight(node):
    return rta(node)['in_flight']


def lock_of(ceph, name):
    """Who has the image's lock: the client, the lock's own name, the address."""
    return re.split('  +', ceph.rbd('lock', 'ls', f'rbd/{name}').splitlines()[-1].strip())


def break_lock(ceph, name):
    """As an operator does who wants another client to have the image."""
    client, lock, _ = lock_of(ceph, name)
    ceph.rbd('lock', 'rm', f'rbd/{name}', lock, client)


def overwrite(ceph, name):
    """Another client writes; gives what the image has then."""
    ceph.rbd('bench', '--io-type', 'write', '--io-size', '64K', '--io-total', '1M', f'rbd/{name}')
    return hashlib.sha256(contents(ceph, name)).digest()


def loaded(node, seconds, do_harm, pause=1):
    """fio writes and verifies while harm is done again and again."""
    need('fio')
    load = subprocess.Popen([*clients.fio_words(), '--time_based', f'--runtime={seconds}',
                             '--io_size=100G', '--verify_backlog=64', f'--uri={node.uri()}'],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + LIMIT + seconds
    with load:
        while load.poll() is None and time.monotonic() < deadline:
            time.sleep(pause)
            do_harm()
        load.kill()
        said = load.stderr.read().decode()
    assert load.returncode == 0, f'status {load.returncode}: {said}\n{node.said()}'


@case
def the_contract_holds():
    """As tests/node/test_ddm.c asks it of every driver that keeps data."""
    uri = cluster().image('contract')
    run('env', f'LD_LIBRARY_PATH={BUILD / "lib"}', PROGRAM, uri)


@case
def clients_do_as_with_a_file():
    volume = cluster().image('clients')
    with folder() as place:
        clients.nbdcopy_round_trip(place, volume, 16 << 20)
        assert contents(cluster(), 'clients')[:16 << 20] == (place / 'data').read_bytes()
    clients.qemu_io_writes_zeroes_and_discards(volume)
    clients.fio_verifies(volume)


@case
def an_image_is_made_on_request_and_once():
    ceph = cluster()
    uri = ceph.uri('made', 'create=8M')
    assert captive('nbdinfo --size "$uri"', uri).strip() == str(8 << 20)
    captive('qemu-io -f raw -c "write -P 7 0 64k" "$uri" >&2', uri)
    captive('qemu-io -f raw -c "read -P 7 0 64k" "$uri" >&2', ceph.uri('made', 'create=16M'))
    assert 'size 8 MiB' in ceph.rbd('info', 'rbd/made')


@case
def a_namespace_is_part_of_the_name():
    ceph = cluster()
    ceph.rbd('namespace', 'create', 'rbd/space')
    captive('nbdinfo --size "$uri"', ceph.uri('space/made', 'create=8M'))
    assert ceph.rbd('ls', 'rbd/space').split() == ['made']


@case
def a_snapshot_is_read_only_and_stays_as_it_was():
    ceph = cluster()
    with Node(ceph.image('snapped')) as node:
        qemu_io(node, 'write -P 1 0 64k')
        ceph.rbd('snap', 'create', '--no-progress', 'rbd/snapped@one')
        qemu_io(node, 'write -P 2 0 64k')
        with Node(ceph.uri('snapped@one')) as old:
            run('nbdinfo', '--is', 'read-only', old.uri())
            run('qemu-io', '-r', '-f', 'raw', '-c', 'read -P 1 0 64k', old.uri())
        qemu_io(node, 'read -P 2 0 64k')


@case
def a_new_size_is_seen():
    ceph = cluster()
    with Node(ceph.image('sized', '8M')) as node:
        for size in (16, 4):
            ceph.rbd('resize', '--no-progress', '--allow-shrink', '--size', f'{size}M', 'rbd/sized')
            until(lambda: int(run('nbdinfo', '--size', node.uri())) == size << 20)
            qemu_io(node, f'write -P 5 {size - 1}M 1M')


@case
def what_is_not_there_is_named():
    ceph = cluster()
    for uri, said in ((ceph.uri('nothing'), 'there is no image nothing (create=SIZE makes one)'),
                      (ceph.uri('clients@nothing'), 'its snapshot nothing: No such file'),
                      (ceph.uri('clients').replace('rbd/', 'none/'), 'the pool none: No such'),
                      ('rbd:rbd/x?conf=/nowhere', "Ceph's configuration /nowhere: No such"),
                      ('rbd:x', 'must be POOL[/NAMESPACE]/IMAGE'),
                      ('rbd:rbd/x?patience=1ms', 'patience=1ms: it must be 1s or more'),
                      ('rbd:rbd/x?color=red', 'no parameter color')):
        expect_error(weft('serve', '--nbd=127.0.0.1:0', '--run=true', uri), 1, said)


@case
def a_cache_of_the_image_is_refused():
    ceph = cluster()
    uri = ceph.image('cached')
    ceph.rbd('config', 'image', 'set', 'rbd/cached', 'rbd_cache', 'true')
    expect_error(weft('serve', '--nbd=127.0.0.1:0', '--run=true', uri), 1, 'rbd_cache on')


@case
def an_image_is_served_once():
    ceph = cluster()
    uri = ceph.image('once')
    with Node(uri):
        expect_error(weft('serve', '--nbd=127.0.0.1:0', '--run=true', uri), 1,
                     'another process has it open through weft')
    bench = subprocess.Popen(['rbd', 'bench', '--io-type', 'write', '--io-total', '100G',
                              'rbd/once'], env=ceph.env, stdout=subprocess.DEVNULL)
    try:
        until(lambda: ceph.rbd('lock', 'ls', 'rbd/once'))
        expect_error(weft('serve', '--nbd=127.0.0.1:0', '--run=true', ceph.uri('once', 'wait=1s')),
                     1, "has the image's exclusive lock, and lives")
    finally:
        bench.kill()
        bench.wait()


@case
def fio_verifies_while_rtas_are_killed():
    """Each as soon as it serves, and two successors at some point of their way there: so the lock
    is found by those after them in every state of changing hands."""
    pauses = itertools.cycle((0.1, 0.2, 0.4, 0.05, 0.3))

    def kill_three():
        until(lambda: rta(node)['state'] == 'ready', LIMIT)
        killed = kill_rtas(node)
        for _ in range(2):
            until(lambda: set(node.rtas()) - killed, LIMIT)
            time.sleep(next(pauses))
            killed |= kill_rtas(node)
    with Node(cluster().image('killed')) as node:
        loaded(node, count(4, 60), kill_three)
        assert rta(node)['restarts'] >= 2
        assert 'rbd: image' not in node.said(), node.said()


@case
def late_writes_of_a_killed_process_do_not_land():
    """Its writes lie before an OSD that is stopped; what comes after them stays."""
    ceph = cluster()
    places = range(0, 16 << 20, 1 << 20)
    with Node(ceph.image('late')) as node:
        qemu_io(node, 'write 0 16M')
        address = lock_of(ceph, 'late')[2]
        ceph.signal('osd', signal.SIGSTOP)
        try:
            load = writer(node, *(f'aio_write -P 1 {at} 64k' for at in places), 'aio_flush')
            until(lambda: in_flight(node) == len(places))
            load.kill()
            load.communicate()
            kill_rtas(node)
        finally:
            ceph.signal('osd', signal.SIGCONT)
        qemu_io(node, *(f'write -P 2 {at} 64k' for at in places))
        assert address != lock_of(ceph, 'late')[2]
        assert address in ceph.tell('osd blocklist ls')
    data = contents(ceph, 'late')
    assert all(set(data[at:at + (64 << 10)]) == {2} for at in places)


@case
def an_acknowledged_write_outlives_the_node():
    """Which is killed and started again: its own lock does not keep it out."""
    ceph = cluster()
    uri = ceph.image('node')
    for number in range(1, count(4, 20)):
        with Node(uri) as node:
            if number > 1:
                qemu_io(node, f'read -P {number - 1} 1M 64k')
            qemu_io(node, f'write -P {number} 1M 64k')
            kill(node)
            assert node.start_seconds < 15, node.start_seconds  # a watch lasts for 30


@case
def a_stolen_lock_ends_writing_until_it_is_free():
    ceph = cluster()
    with Node(ceph.image('stolen')) as node:
        qemu_io(node, 'write -P 5 0 1M')
        break_lock(ceph, 'stolen')
        others = overwrite(ceph, 'stolen')
        said = qemu_io(node, 'write -P 6 0 1M', status=1)
        assert 'Cannot send after transport endpoint shutdown' in said, said
        assert hashlib.sha256(contents(ceph, 'stolen')).digest() == others
        until(lambda: 'is served again' in node.said())
        qemu_io(node, 'write -P 7 0 1M', 'read -P 7 0 1M')
        assert 'its lock is lost to another client' in node.said()


@case
def what_a_killed_process_left_is_not_replayed_behind_another_owner():
    """Between its end and its successor another client has the lock, and writes."""
    ceph = cluster()
    with Node(ceph.image('between')) as node:
        qemu_io(node, 'write -P 5 0 1M')
        ceph.signal('osd', signal.SIGSTOP)
        load = writer(node, 'write -P 6 0 1M')
        until(lambda: in_flight(node) > 0)
        node.process.send_signal(signal.SIGSTOP)
        kill_rtas(node)
        ceph.signal('osd', signal.SIGCONT)
        break_lock(ceph, 'between')
        others = overwrite(ceph, 'between')
        node.process.send_signal(signal.SIGCONT)
        said, _ = load.communicate(timeout=LIMIT)
        assert 'transport endpoint shutdown' in said, said
        assert hashlib.sha256(contents(ceph, 'between')).digest() == others
        assert 'another client had its lock meanwhile' in node.said(), node.said()
        until(lambda: 'is served again' in node.said())
        qemu_io(node, 'write -P 7 0 1M')


@case
def an_osd_that_is_too_slow_is_an_error_and_may_come_back():
    ceph = cluster()
    ceph.image('slow')
    with Node(ceph.uri('slow', 'patience=1s')) as node:
        qemu_io(node, 'write -P 5 0 64k')
        ceph.signal('osd', signal.SIGSTOP)
        try:
            qemu_io(node, 'write -P 6 1M 64k', status=1)
        finally:
            ceph.signal('osd', signal.SIGCONT)
        qemu_io(node, 'read -P 5 0 64k', 'write -P 7 1M 64k', 'read -P 7 1M 64k')


@case
def a_full_cluster_is_no_space():
    ceph = cluster()
    with Node(ceph.image('full')) as node:
        places = iter(range(8 << 20, 64 << 20, 64 << 10))  # to write where something is takes none

        def write():
            return writer(node, f'write {next(places)} 64k').communicate(timeout=LIMIT)[0]
        qemu_io(node, 'write -P 5 0 8M')
        full, empty = ([f'osd set-{name}-ratio {ratio}' for name, ratio in zip(
            ('nearfull', 'backfillfull', 'full'), ratios)]
            for ratios in (('0.00005', '0.00007', '0.0001'), ('0.85', '0.9', '0.95')))
        ceph.tell(*reversed(full))
        try:
            until(lambda: 'No space left on device' in write())
        finally:
            ceph.tell(*reversed(empty))
        until(lambda: 'wrote' in write())
        qemu_io(node, 'read -P 5 0 1M')


@case
def a_daemon_that_comes_back_costs_time_only():
    """The OSD and the monitor are killed and started again while fio writes and verifies."""
    ceph = cluster()
    names = ['mon', 'osd', *['osd', 'mon'] * count(0, 3)]

    def kill_next():
        if names:
            name = names.pop(0)
            ceph.kill(name)
            ceph.start(name)
    with Node(ceph.image('daemons')) as node:
        loaded(node, count(4, 60), kill_next, count(1, 8))
    assert not names


# ---- two nodes with one image


NQN = 'nqn.2026-11.test:image'
INACCESSIBLE = 0x302


@contextlib.contextmanager
def two_nodes(name):
    """The one that serves the image, and the one that stands by."""
    ceph = cluster()
    ceph.image(name)
    uri = ceph.uri(name, f'nqn={NQN}', 'standby=on')
    with Nvme(uri) as active, Nvme('--cntlid-min=1000', uri) as standby:
        assert (state(active), state(standby)) == ('ready', 'standby')
        yield active, standby


def state(node):
    return node.status()['volumes'][0]['state']


def hand_over(node):
    return weft('rescan', f'--stand-by={node.status()["volumes"][0]["name"]}', node.process.pid)


@case
def a_killed_node_is_followed_by_the_other_with_the_image():
    with two_nodes('followed') as (active, standby):
        qemu_io(active, 'write -P 5 0 64k')
        qemu_io(standby, 'read 0 64k', status=1)
        address = lock_of(cluster(), 'followed')[2]
        kill(active)
        until(lambda: state(standby) == 'ready', 10)  # a watch lasts for 30
        qemu_io(standby, 'read -P 5 0 64k', 'write -P 6 0 64k')
        assert address in cluster().tell('osd blocklist ls')


@case
def late_writes_of_a_killed_node_do_not_land():
    ceph = cluster()
    places = range(0, 16 << 20, 1 << 20)
    with two_nodes('late-node') as (active, standby):
        qemu_io(active, 'write 0 16M')
        ceph.signal('osd', signal.SIGSTOP)
        try:
            load = writer(active, *(f'aio_write -P 1 {at} 64k' for at in places), 'aio_flush')
            until(lambda: in_flight(active) == len(places))
            kill(active)
            load.communicate(timeout=LIMIT)
        finally:
            ceph.signal('osd', signal.SIGCONT)
        until(lambda: state(standby) == 'ready')
        qemu_io(standby, *(f'write -P 2 {at} 64k' for at in places))
    data = contents(ceph, 'late-node')
    assert all(set(data[at:at + (64 << 10)]) == {2} for at in places)


@case
def an_image_is_handed_over_and_back_and_nobody_is_shut_out():
    """So that a node on another machine, which sees only the lock, has it at once."""
    ceph = cluster()
    with two_nodes('handed') as (active, standby):
        for one, other in ((active, standby), (standby, active)):
            address = lock_of(ceph, 'handed')[2]
            assert hand_over(one).returncode == 0
            until(lambda one=one, other=other: (state(one), state(other)) == ('standby', 'ready'))
            assert address not in ceph.tell('osd blocklist ls')


@case
def a_node_whose_lock_is_taken_away_stands_by_and_no_host_sees_an_error():
    ceph = cluster()
    with two_nodes('taken') as (active, standby), session(active.address, NQN) as (_, queue):
        assert queue.write(0, b'a' * 512).status == 0
        active.process.send_signal(signal.SIGSTOP)
        for pid in active.rtas():
            os.kill(pid, signal.SIGSTOP)
        break_lock(ceph, 'taken')
        for pid in (*active.rtas(), active.process.pid):
            os.kill(pid, signal.SIGCONT)
        assert queue.write(0, b'b' * 512).status == INACCESSIBLE
        until(lambda: sorted((state(active), state(standby))) == ['ready', 'standby'])
        assert 'lock is lost to another client' in active.said()


@case
def a_node_stands_by_while_another_client_has_the_image():
    ceph = cluster()
    ceph.image('benched')
    bench = subprocess.Popen(['rbd', 'bench', '--io-type', 'write', '--io-total', '100G',
                              'rbd/benched'], env=ceph.env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        until(lambda: ceph.rbd('lock', 'ls', 'rbd/benched'))
        with Nvme(ceph.uri('benched', f'nqn={NQN}', 'standby=on')) as node:
            assert state(node) == 'standby' and node.start_seconds < 15, node.start_seconds
            assert "has the image's exclusive lock, and lives" in node.said()
            break_lock(ceph, 'benched')
            until(lambda: state(node) == 'ready')
            qemu_io(node, 'write -P 5 0 64k')
    finally:
        bench.kill()
        bench.wait()


@case
def fio_verifies_while_an_image_goes_to_and_fro():
    with two_nodes('to-and-fro') as nodes:
        ports = [node.address[1] for node in nodes]
        paths = f'nvme+tcp://127.0.0.1:{ports[0]}/{NQN}?paths=127.0.0.1:{ports[1]}'
        ways = [hand_over, kill_rtas]

        def harm():
            active = next((node for node in nodes if state(node) == 'ready'), None)
            if active:
                ways[0](active)
                ways.reverse()
        with Node(paths) as client:
            loaded(client, count(6, 60), harm, 1.5)
        until(lambda: sorted(map(state, nodes)) == ['ready', 'standby'])


# While a daemon is away, a connection of some other test's may take its port: not in a network of
# one's own.
with contextlib.suppress(tapnet.NotHere):
    tapnet.enter_namespace('ip', 'link', 'set', 'lo', 'up')
    tapnet.ip('link', 'set', 'lo', 'up')
with STACK:
    main()
