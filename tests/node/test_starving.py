#!/usr/bin/env python3
"""Clients that take and do not give: others go on as before, and who holds memory without getting
on loses its connection."""

import contextlib
import struct
import time

import nvme_host as nvme
from nbd_client import READ, WRITE, Client
from nvme_host import rw, session, transport
from serving import Nvme, case, count, folder, main, until

MIB = 1 << 20
POOL = 64 * MIB
HOST = 'nqn.2026-11.test:host'


@contextlib.contextmanager
def node_with(patience, *volumes):
    with folder() as place:
        config = place / 'node.ini'
        config.write_text(f'[node]\npatience = {patience}\npool = {POOL}\n')
        with Nvme(f'--config={config}', *volumes) as node:
            yield node


def reads_nothing(node, length, requests):
    """An NBD client that asks for much and takes none of it."""
    client = Client(node).go()
    for cookie in range(requests):
        client.request(READ, 0, length, cookie=cookie)
    return client


def writes_an_octet(node, length):
    client = Client(node).go()
    client.request(WRITE, 0, length, data=b'x')
    return client


def taken(node):
    return node.status()['pool_taken']


def percentile(times, share):
    return sorted(times)[int(len(times) * share)]


def reads_and_writes(queue, client, turns=None):
    """What small and larger requests over both protocols take."""
    for turn in range(turns or count(80, 700)):
        began = time.monotonic()
        assert queue.read(turn % 256, 8).status == 0
        assert queue.write(turn % 256, bytes(64 << 10)).status == 0
        client.request(READ, 0, 64 << 10)
        assert client.answer(64 << 10)[0] == 0
        if turn % 10 == 0:
            assert queue.write(0, bytes(MIB)).status == 0
            client.request(WRITE, 0, MIB, data=bytes(MIB))
            assert client.answer()[0] == 0
        yield time.monotonic() - began


@contextlib.contextmanager
def greedy_clients(node):
    with contextlib.ExitStack() as stack:
        stack.enter_context(reads_nothing(node, 32 * MIB, 8))
        stack.enter_context(reads_nothing(node, MIB, 128))
        stack.enter_context(reads_nothing(node, 4096, 128))
        for _ in range(2):
            stack.enter_context(writes_an_octet(node, 32 * MIB))
        _, queue = stack.enter_context(session(node.address, node.nqn))
        for cid in range(128):
            entry = rw(nvme.READ if cid % 2 else nvme.WRITE, 0, 2048, transport(MIB), cid=cid)
            queue.capsule(entry)
        until(lambda: taken(node) >= 32 * MIB)
        yield


@case
def others_go_on_beside_clients_that_do_not():
    with node_with('3600s', 'ram:64M') as node, contextlib.ExitStack() as stack:
        _, queue = stack.enter_context(session(node.address, node.nqn, host=HOST + '2'))
        client = stack.enter_context(Client(node).go())
        alone, beside = [], []
        list(reads_and_writes(queue, client))  # memory is there from now on
        for _ in range(3):  # in turn, since the machine is not the same from one second to the next
            alone += reads_and_writes(queue, client)
            with greedy_clients(node):
                beside += reads_and_writes(queue, client)
        before, after = (percentile(times, 0.99) for times in (alone, beside))
        median = percentile(beside, 0.5) / percentile(alone, 0.5)
        print(f'# 99th percentile {before * 1e3:.1f} ms alone, {after * 1e3:.1f} ms beside them: '
              f'{after / before:.2f}; median {median:.2f}')
        assert after <= 4 * before, (before, after)


@contextlib.contextmanager
def slow_writers(node):
    """Clients at three addresses for each of the first three volumes: none sends its data."""
    with contextlib.ExitStack() as stack:
        for number in range(9):
            for turn in range(2):
                _, queue = stack.enter_context(
                    session(node.address, node.nqns[number // 3], source=f'127.0.0.{number + 2}',
                            host=f'{HOST}-{number}-{turn}'))
                for cid in range(8):
                    queue.capsule(rw(nvme.WRITE, 0, 2048, transport(MIB), cid=cid))
        until(lambda: taken(node) >= POOL // 2)
        yield


@case
def slow_writers_of_three_volumes_keep_nobody_waiting():
    names = [f'{name}=ram:64M' for name in 'abcd']
    with node_with('3600s', *names) as node, contextlib.ExitStack() as stack:
        alone, beside = [], []
        for nqn, name in ((node.nqns[0], 'a'), (node.nqns[3], 'd')):  # theirs, and another
            _, queue = stack.enter_context(
                session(node.address, nqn, host=HOST + name, source='127.0.0.60'))
            client = stack.enter_context(Client(node).go(name.encode()))
            list(reads_and_writes(queue, client))  # memory is there from now on
            alone += reads_and_writes(queue, client, count(21, 300))
            with slow_writers(node):
                beside += reads_and_writes(queue, client, count(21, 300))
        before, after = (percentile(times, 0.9) for times in (alone, beside))
        print(f'# 90th percentile {before * 1e3:.1f} ms alone, {after * 1e3:.1f} ms beside them')
        assert after <= 4 * before, (before, after)


@case
def who_does_not_get_on_is_cut_off():
    with node_with('1s', 'ram:64M') as node, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(one) for one in (reads_nothing(node, MIB, 64),
                                                       writes_an_octet(node, 32 * MIB))]
        _, greedy = stack.enter_context(session(node.address, node.nqn))
        for cid in range(64):
            greedy.capsule(rw(nvme.READ, 0, 2048, transport(MIB), cid=cid))
        _, asked = stack.enter_context(session(node.address, node.nqn, host=HOST + '2'))
        asked.capsule(rw(nvme.WRITE, 0, 2048, transport(MIB)))
        until(lambda: node.status()['nbd']['stalled'] == 2)
        until(lambda: node.status()['nvme_tcp']['stalled'] == 2)
        until(lambda: taken(node) == 0)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            silent[1].put(b'x')
            assert silent[1].is_ended()


@case
def an_octet_now_and_then_is_not_getting_on():
    with node_with('2s', 'ram:64M') as node, contextlib.ExitStack() as stack:
        trickle = stack.enter_context(writes_an_octet(node, MIB))
        _, queue = stack.enter_context(session(node.address, node.nqn))
        queue.capsule(rw(nvme.WRITE, 0, 2048, transport(MIB)))
        _, header, _ = queue.take()
        cid, tag = struct.unpack_from('<HH', header, 8)
        data = queue.h2c(cid, tag, 0, bytes(MIB))
        queue.put(data[:64])
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for at in range(64, 1 << 20):
                assert time.monotonic() - began < 20
                trickle.put(b'x')
                queue.put(data[at:at + 1])
                time.sleep(0.05)
        until(lambda: (node.status()['nbd']['stalled'], node.status()['nvme_tcp']['stalled']) ==
              (1, 1))


@case
def who_is_slow_and_gets_on_is_served():
    with node_with('3s', 'ram:64M') as node, Client(node).go() as client:
        began = time.monotonic()
        client.request(WRITE, 0, 8 * MIB, data=bytes(range(256)) * 16)
        for _ in range(15):
            time.sleep(0.25)
            client.put(bytes(range(256)) * 2048)
        client.put(bytes(range(256)) * ((8 * MIB - 4096 - 15 * (512 << 10)) // 256))
        assert client.answer()[0] == 0 and time.monotonic() - began > 3
        client.request(READ, 0, 8 * MIB)
        assert client.answer(8 * MIB) == (0, bytes(range(256)) * (8 * MIB // 256))
        assert node.status()['nbd']['stalled'] == 0


@case
def data_that_are_not_there_have_no_buffer():
    with node_with('3600s', 'ram:1M') as node, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(node).go()) for _ in range(16)]
        for client in clients:
            client.request(WRITE, 0, 64 << 10, data=bytes(60000))
            client.request(WRITE, 0, 64 << 10)  # its header is data of the first
        until(lambda: node.status()['connections'] == 16)
        assert taken(node) == 0
        for client in clients:
            client.put(bytes((64 << 10) - 60000 - 28))
            assert client.answer() == (0, b'')


@case
def a_host_and_a_volume_have_their_share_of_the_pool():
    with node_with('3600s', 'a=ram:64M', 'b=ram:64M') as node, contextlib.ExitStack() as stack:
        def greedy(number):
            for turn in range(4):
                _, queue = stack.enter_context(
                    session(node.address, node.nqns[0], source=f'127.0.0.{number}',
                            host=f'{HOST}-{number}-{turn}'))
                for cid in range(32):
                    queue.capsule(rw(nvme.WRITE, 0, 2048, transport(MIB), cid=cid))
        greedy(2)
        until(lambda: taken(node) >= POOL // 4)
        with session(node.address, node.nqns[0], source='127.0.0.3') as (_, queue):
            assert queue.write(0, bytes(MIB)).status == 0
        assert taken(node) <= POOL // 4 + 4 * (256 << 10)
        greedy(4)
        until(lambda: taken(node) >= 3 * POOL // 8)
        with session(node.address, node.nqns[1], source='127.0.0.5') as (_, queue):
            assert queue.write(0, bytes(MIB)).status == 0
            assert queue.read(0, 2048).data == bytes(MIB)
        assert taken(node) <= 3 * POOL // 8 + 8 * (256 << 10)
        with session(node.address, node.nqns[0], source='127.0.0.6') as (_, queue):
            assert queue.read(0, 2048).data == bytes(MIB)  # whatever others do not send


main()
