#!/usr/bin/env python3
"""Compares, over the protocols that have them: what they answer, and that of several hosts and
initiators that count in one block nobody loses a step."""

import contextlib
import os
import signal
import struct
import threading

import nvme_host as nvme
from iscsi_host import READ, WRITE, Initiator
from nvme_host import in_capsule, rw, session, transport
from serving import Node, Nvme, case, main

COMPARE, FIRST, SECOND = 5, 0x41, 0x42
INVALID_FIELD, FAILED_FUSED, MISSING_FUSED, TOO_LONG = 2, 9, 0xa, 0x14
LBA_RANGE, READ_ONLY, MISCOMPARE = 0x80, 0x20, 0x285
OLD, NEW, ELSE = b'o' * 512, b'n' * 512, b'e' * 512


def fuse(flags, opcode, block, count, where, cid, control=0):
    entry = bytearray(rw(opcode, block, count, where, control, cid))
    entry[1] = flags
    return bytes(entry)


def pair(queue, expected, new, block=0, control=0, small=True):
    """The statuses of a fused Compare and Write, whatever answer comes first."""
    place = in_capsule if small else transport
    octets = b''
    for flags, opcode, data, cid in ((FIRST, COMPARE, expected, 1), (SECOND, nvme.WRITE, new, 2)):
        entry = fuse(flags, opcode, block, len(data) // 512, place(len(data)), cid, control)
        octets += queue.pdu(nvme.CMD, entry, data if small else b'')
    queue.put(octets)
    return statuses(queue, {1: expected, 2: new})


def statuses(queue, data=None):
    """Of commands 1 and 2; their data are given when asked for."""
    found = {}
    while len(found) < 2:
        kind, header, _ = queue.take()
        if kind == nvme.R2T:
            queue.give(header, data[struct.unpack_from('<H', header, 8)[0]])
        else:
            said = nvme.Answer(header[8:])
            found[said.cid] = said.status
    return found[1], found[2]


@case
def a_compare_finds_every_octet():
    with Nvme('ram:4M') as node, session(node.address, node.nqn) as (_, queue):
        data = bytearray(os.urandom(1 << 20))
        assert queue.write(8, bytes(data)).status == 0
        for at in (None, 0, 77777, len(data) - 1):
            if at is not None:
                data[at] ^= 1
            said = queue.ask(rw(COMPARE, 8, 2048, transport(len(data))), pull=bytes(data))
            assert said.status == (0 if at is None else MISCOMPARE), (at, hex(said.status))
            assert said.is_final == (at is not None)
            if at is not None:
                data[at] ^= 1
        assert queue.ask(rw(COMPARE, 8192, 1, transport(512)), pull=OLD).status == LBA_RANGE
        octets = node.status()['volumes'][0]['completions']
        assert octets['miscompare'] == 3, octets


@case
def a_fused_pair_writes_what_it_finds_as_expected():
    for digests in (0, 3):
        with Nvme('ram:4M') as node, session(node.address, node.nqn,
                                             digests=digests) as (_, queue):
            assert queue.write(0, OLD).status == 0
            assert pair(queue, ELSE, NEW) == (MISCOMPARE, FAILED_FUSED)
            assert queue.read(0, 1).data == OLD
            assert pair(queue, OLD, NEW) == (0, 0)
            assert queue.read(0, 1).data == NEW
            assert pair(queue, NEW, OLD, control=nvme.FUA, small=False) == (0, 0)
            assert queue.read(0, 1).data == OLD
            large = os.urandom(512 << 10)
            assert pair(queue, OLD + bytes(len(large) - 512), large, small=False) == (0, 0)
            assert queue.read(0, 1024).data == large


@case
def a_fused_pair_that_is_none_is_refused():
    with Nvme('ram:4M') as node, session(node.address, node.nqn) as (admin, queue):
        one = in_capsule(512)
        for first, second, expected in (
                ((COMPARE, 0, 1), (nvme.WRITE, 1, 1), (FAILED_FUSED, INVALID_FIELD)),
                ((COMPARE, 0, 1), (nvme.READ, 0, 1), (FAILED_FUSED, INVALID_FIELD)),
                ((nvme.READ, 0, 1), (nvme.WRITE, 0, 1), (INVALID_FIELD, FAILED_FUSED)),
                ((COMPARE, 8192, 1), (nvme.WRITE, 8192, 1), (LBA_RANGE, FAILED_FUSED))):
            for cid, flags, (opcode, block, count) in ((1, FIRST, first), (2, SECOND, second)):
                queue.capsule(fuse(flags, opcode, block, count, one, cid), OLD)
            assert statuses(queue) == expected, expected
        long = transport(513 << 10)
        for cid, flags, opcode in ((1, FIRST, COMPARE), (2, SECOND, nvme.WRITE)):
            queue.capsule(fuse(flags, opcode, 0, 1026, long, cid))
        assert statuses(queue) == (FAILED_FUSED, TOO_LONG)
        for wrong, expected in ((0, (INVALID_FIELD, FAILED_FUSED)),  # where data are: by no SGL
                                (1, (FAILED_FUSED, INVALID_FIELD))):
            for cid, flags, opcode in ((1, FIRST, COMPARE), (2, SECOND, nvme.WRITE)):
                flags &= 3 if cid == wrong + 1 else 0xff
                queue.capsule(fuse(flags, opcode, 0, 1, one, cid), bytes(512))
            assert statuses(queue) == expected, expected
        # One alone, whichever it is; three at once; and none but these two are ever fused.
        assert queue.ask(fuse(SECOND, nvme.WRITE, 0, 1, one, 1), OLD).status == MISSING_FUSED
        for flags, opcode in ((FIRST, COMPARE), (0x40, nvme.FLUSH)):
            queue.capsule(fuse(flags, opcode, 0, 1, one, 1 + (opcode == nvme.FLUSH)), OLD)
        assert statuses(queue) == (MISSING_FUSED, 0)
        assert queue.ask(fuse(0x43, COMPARE, 0, 1, one, 1), OLD).status == INVALID_FIELD
        assert admin.ask(fuse(FIRST, nvme.IDENTIFY, 0, 1, one, 1)).status == INVALID_FIELD
        assert queue.read(0, 1).data == bytes(512)
        queue.capsule(fuse(FIRST, COMPARE, 0, 1, one, 1), OLD)  # and goes, its second unsent
    with Nvme('--read-only', 'ram:4M') as node, session(node.address, node.nqn) as (_, queue):
        assert pair(queue, bytes(512), NEW) == (FAILED_FUSED, READ_ONLY)


@case
def a_fused_pair_that_a_reservation_bars_fails():
    with Nvme('ram:4M') as node, session(node.address, node.nqn) as (_, queue), \
            session(node.address, node.nqn, host='nqn.2026-11.test:b', hostid=b'B' * 16) as (
                _, other):
        key = struct.pack('<QQ', 0, 7)
        assert queue.ask(nvme.sqe(0xd, 1, 1, transport(16), struct.pack('<I', 0)),
                         pull=key).status == 0
        key = struct.pack('<QQ', 7, 0)
        assert queue.ask(nvme.sqe(0x11, 1, 1, transport(16), struct.pack('<I', 1 << 8)),
                         pull=key).status == 0
        assert pair(other, bytes(512), NEW) == (FAILED_FUSED, 0x83)
        assert other.ask(rw(COMPARE, 0, 1, transport(512)), pull=bytes(512)).status == 0
        assert pair(queue, bytes(512), NEW) == (0, 0)


class Both(Node):
    """A node that NVMe hosts and iSCSI initiators reach."""

    def __init__(self, *words):
        super().__init__('--nvme-tcp=127.0.0.1:0', '--iscsi=127.0.0.1:0', *words)

    def address(self, scheme):
        uri = next(uri for uri in self.status()['volumes'][0]['uris'] if uri.startswith(scheme))
        place, name = uri.partition('://')[2].split('/')[:2]
        host, _, port = place.rpartition(':')
        return (host, int(port)), name


def host_steps(node, count, tried):
    """One more in the block, until `count` were: what it takes the others to have is what it is
    told by a read."""
    address, nqn = node.address('nvme+tcp:')
    with session(address, nqn) as (_, queue):
        while count > 0:
            tried.append(1)
            old = queue.read(3, 1).data
            new = struct.pack('<Q', struct.unpack_from('<Q', old)[0] + 1).ljust(512, b'\0')
            status = pair(queue, old, new, 3)
            assert status in ((0, 0), (MISCOMPARE, FAILED_FUSED)), status
            count -= status == (0, 0)


def initiator_steps(node, number, count, tried):
    address, target = node.address('iscsi:')
    where = [0, *(3).to_bytes(8, 'big'), 0, 0, 0, 1]
    with Initiator(address, 60) as initiator:
        initiator.login(target, isid=b'\x80weft' + bytes([number]))
        initiator.ready()
        while count > 0:
            tried.append(1)
            old = initiator.ask([0x88, *where], 512, READ).data
            new = struct.pack('<Q', struct.unpack_from('<Q', old)[0] + 1).ljust(512, b'\0')
            said = initiator.ask([0x89, *where], 1024, WRITE, data=old + new)
            assert said.status == 0 or said.sense[0] == 0xe, said.data
            count -= said.status == 0


def counted(steps, kill=False):
    with Both('ram:1M') as node:
        tried, failed = [], []

        def guarded(step, *words):
            try:
                step(node, *words, steps, tried)
            except BaseException as error:  # a thread's own would be lost
                failed.append(error)
        threads = [threading.Thread(target=guarded, args=(host_steps,)) for _ in range(2)]
        threads += [threading.Thread(target=guarded, args=(initiator_steps, number))
                    for number in range(2)]
        for thread in threads:
            thread.start()
        if kill:
            while len(tried) < steps and not failed:
                threads[0].join(0.01)
            os.kill(node.rtas()[0], signal.SIGKILL)
        for thread in threads:
            thread.join(60)
        assert not failed, failed
        assert not any(thread.is_alive() for thread in threads)
        address, nqn = node.address('nvme+tcp:')
        with session(address, nqn) as (_, queue):
            found, = struct.unpack_from('<Q', queue.read(3, 1).data)
        assert found == 4 * steps, (found, 4 * steps)
        assert len(tried) > found, 'they have never met'
        return node.status()['rtas'][0]['restarts']


@case
def hosts_and_initiators_count_together_and_lose_nothing():
    assert counted(150) == 0


@case
def nor_do_they_when_the_driver_dies():
    assert counted(150, kill=True) == 1


main()
