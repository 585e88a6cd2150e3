#!/usr/bin/env python3
"""The NVMe controllers over NVMe/TCP against hosts that do not keep to the protocol, and those that
do so oddly. What a real host makes of them is in test_kernel_host.py."""

import contextlib
import os
import signal
import struct

import nvme_host as nvme
from nbd_client import READ, WRITE, Client
from nvme_host import Queue, in_capsule, rw, session, sgl, sqe, transport
from serving import Nvme, case, folder, main, until, weft

HOST, OTHER = 'nqn.2026-11.test:host', 'nqn.2026-11.test:other'
INVALID_OPCODE, INVALID_FIELD, NO_NAMESPACE, SEQUENCE = 1, 2, 0xb, 0xc
SGL_LENGTH, SGL_TYPE, SGL_OFFSET, READ_ONLY, DIGEST = 0xf, 0x11, 0x16, 0x20, 0x22
CAPACITY, NOT_READY, UNWRITTEN, UNREAD = 0x81, 0x82, 0x280, 0x281
LBA_RANGE, AER_LIMIT, LOG_PAGE = 0x80, 0x105, 0x109
BAD_FORMAT, BAD_PARAMETER, BAD_HOST = 0x180, 0x182, 0x184
IN_DATA = 1 << 16
FIELD, ORDER, HEADER_DIGEST, RANGE, LIMIT, UNSUPPORTED = 1, 2, 3, 4, 5, 6


def on_node(function):
    """A case with a node of 1 MiB of memory, which must serve afterwards too."""
    def run():
        with Nvme('ram:1M') as node:
            function(node)
            with session(node.address, node.nqn) as (_, queue):
                assert queue.read(0, 8).status == 0
    run.__name__ = function.__name__
    return case(run)


@on_node
def a_host_reads_what_it_wrote_whatever_was_agreed(node):
    pattern = bytes(range(256)) * 512
    for digests in range(4):
        for attributes in (0, 4):
            with session(node.address, node.nqn, 2, digests=digests,
                         attributes=attributes) as (admin, first, second):
                assert first.write(3, pattern[:12800]).status == 0
                assert second.read(3, 25).data == pattern[:12800]
                assert first.write(8, pattern).status == 0
                assert second.read(8, 256).data == pattern
                entry = rw(nvme.WRITE, 9, 2, in_capsule(1024, 64))
                assert second.ask(entry, b'#' * 64 + b'c' * 1024).status == 0
                assert first.read(8, 4).data == pattern[:512] + b'c' * 1024 + pattern[1536:2048]
                said = admin.identify(1)
                assert said.sqhd == (0xffff if attributes else said.sqhd)


@on_node
def data_are_not_read_into_a_capsule(node):
    with session(node.address, node.nqn) as (admin, queue):
        for asked, entry in ((queue, rw(nvme.READ, 0, 1, in_capsule(512))),
                             (admin, sqe(nvme.IDENTIFY, 9, 0, in_capsule(4096), b'\1')),
                             (admin, sqe(nvme.GET_LOG, 9, 0, in_capsule(4), b'\1'))):
            said = asked.ask(entry, bytes(4096))
            assert (said.status, said.is_final, said.data) == (SGL_TYPE, True, b''), entry.hex()


@on_node
def data_are_aligned_as_the_host_wishes(node):
    for align in (0, 1, 15, 31):
        with Queue(node.address, digests=3, align=align) as queue:
            assert queue.connect(node.nqn).status == 0
            queue.set(nvme.CC, nvme.ENABLE)
            assert len(queue.identify(1).data) == 4096  # `take` looks at the offset


@on_node
def identify_tells_of_the_volume(node):
    with session(node.address, node.nqn) as (admin, _):
        page = admin.identify(1).data
        assert page[24:64].rstrip() == b'weft ram'
        assert page[768:1024].rstrip(b'\0').decode() == node.nqn
        assert struct.unpack_from('<I', page, 516) == (256,)
        assert struct.unpack_from('<II', page, 1792) == ((64 + 8192) // 16, 1)
        space = admin.identify(0, 1).data
        assert struct.unpack_from('<Q', space) == (2048,) and space[130] == 9
        uuid = node.nqn.rpartition(':')[2].replace('-', '')
        described = admin.identify(3, 1).data
        assert described[:4] == b'\3\x10\0\0' and described[4:20].hex() == uuid
        assert described[20:24] == b'\2\x10\0\0' and described[24:40] == space[104:120]
        assert admin.identify(2, 0).data[:8] == struct.pack('<II', 1, 0)
        assert admin.identify(2, 1).data[:4] == bytes(4)
        for cns, nsid, status in ((0, 257, NO_NAMESPACE), (0, 2, 0),
                                  (3, 2, NO_NAMESPACE), (3, 0, NO_NAMESPACE),
                                  (2, 0xfffffffe, NO_NAMESPACE), (0x77, 0, INVALID_FIELD),
                                  (6 | 0, 0, 0), (5, 1, 0)):
            assert admin.identify(cns, nsid).status == status, (cns, nsid)


@on_node
def discovery_says_nothing_of_a_secure_channel(node):
    # libnvme 1.3 takes "not required" (2) for a wish for TLS, and connect-all never connects.
    with session(node.address, nvme.DISCOVERY, 0) as (admin,):
        assert admin.log(0x70, 2048).data[1024 + 3] == 4  # flow control may be off


@on_node
def smart_counts_what_a_host_has_moved(node):
    with session(node.address, node.nqn) as (admin, queue):
        for written in range(2):
            assert queue.write(0, bytes(1 << 20)).status == 0
        for read in range(3):
            assert queue.read(0, 1000).status == 0
        log = admin.log(2, 512).data
        # Thousands of 512 octets, rounded up: 2097152 / 512000, 1536000 / 512000; then commands.
        assert struct.unpack_from('<Q8xQ8xQ8xQ', log, 32) == (3, 5, 3, 2)
        assert queue.read(0, 1).status == 0
        assert struct.unpack_from('<Q', admin.log(2, 512).data, 32) == (4,)


@on_node
def connects_are_refused_with_the_parameter(node):
    with session(node.address, node.nqn) as (admin, _):
        cntlid = struct.unpack_from('<H', admin.identify(1).data, 78)[0]
        for status, result, options in (
                (BAD_FORMAT, 0, {'form': 1}), (BAD_PARAMETER, 44, {'size': 1}),
                (BAD_PARAMETER, 44, {'size': 129}),
                (BAD_PARAMETER, 256 | IN_DATA, {'nqn': 'nqn.2026-11.test:nosuch'}),
                (BAD_PARAMETER, 256 | IN_DATA, {'nqn': ''}),
                (BAD_PARAMETER, 256 | IN_DATA, {'nqn': 'n' * 256}),
                (BAD_PARAMETER, 512 | IN_DATA, {'host': 224 * 'n'}),
                (BAD_PARAMETER, 16 | IN_DATA, {'cntlid': 1}),
                (BAD_PARAMETER, 16 | IN_DATA, {'qid': 1, 'cntlid': 0x4141}),
                (BAD_PARAMETER, 16 | IN_DATA, {'qid': 1, 'cntlid': 0}),
                (BAD_PARAMETER, 512 | IN_DATA, {'qid': 1, 'cntlid': cntlid, 'host': OTHER}),
                (BAD_PARAMETER, 0 | IN_DATA, {'qid': 1, 'cntlid': cntlid, 'hostid': b'x' * 16}),
                (BAD_PARAMETER, 42, {'qid': 2, 'cntlid': cntlid}),
                (SEQUENCE, 0, {'qid': 1, 'cntlid': cntlid}),
                (SGL_TYPE, 0, {'where': sgl(0x40, 0, 1024)}),
                (SGL_LENGTH, 0, {'where': in_capsule(1023)}),
                (SGL_OFFSET, 0, {'where': in_capsule(1024, 1)})):
            with Queue(node.address) as queue:
                said = queue.connect(**{'nqn': node.nqn, **options})
                assert (said.status, said.result) == (status, result), (options, hex(said.status))
                # A queue that was refused may ask again; nothing else is taken from it.
                assert queue.identify(1).status == SEQUENCE
                assert queue.connect(node.nqn).status == 0
    assert node.status()['nvme']['refused'] == 14
    assert 'refused' in node.said() and 'no such subsystem' in node.said()


@on_node
def a_discovery_controller_has_no_io_queues(node):
    with session(node.address, nvme.DISCOVERY, 0) as (admin,), Queue(node.address) as queue:
        admin.feature(7, 0)  # whatever is said to this
        cntlid = struct.unpack_from('<H', admin.identify(1).data, 78)[0]
        said = queue.connect(nvme.DISCOVERY, qid=1, cntlid=cntlid)
        assert (said.status, said.result) == (BAD_PARAMETER, 42)


@on_node
def a_queue_belongs_to_an_enabled_controller(node):
    with Queue(node.address) as admin, Queue(node.address) as queue:
        cntlid = admin.connect(node.nqn).result & 0xffff
        assert admin.identify(1).status == SEQUENCE
        assert queue.connect(node.nqn, qid=1, size=8, cntlid=cntlid).status == SEQUENCE
        assert admin.set(nvme.CC, nvme.ENABLE | 6 << 4).status == 0  # another command set
        assert admin.get(nvme.CSTS).result == 2
        admin.set(nvme.CC, 0)
        admin.set(nvme.CC, nvme.ENABLE)
        assert admin.get(nvme.CSTS).result == 1
        assert admin.feature(7, 0).result == 0
        assert queue.connect(node.nqn, qid=1, size=8, cntlid=cntlid).status == 0
        assert queue.read(0, 1).status == 0
        admin.set(nvme.CC, 0)  # reset: the queue goes
        assert queue.is_ended()
        assert admin.get(nvme.CSTS).result == 0


@on_node
def properties_are_what_they_are(node):
    with Queue(node.address) as queue:
        assert queue.get(nvme.CSTS).status == SEQUENCE
        queue.connect(node.nqn)
        assert queue.get(nvme.CAP, 1).result & 0xffff == 127
        assert queue.get(nvme.VS).result == 0x10400
        for offset, size in ((nvme.CAP, 0), (nvme.VS, 1), (0x20, 0), (0xffffffff, 1)):
            assert queue.get(offset, size).status == INVALID_FIELD
        assert queue.set(nvme.CSTS, 0).status == INVALID_FIELD
        queue.set(nvme.CC, nvme.ENABLE)
        queue.set(nvme.CC, nvme.ENABLE | 1 << 14)
        assert queue.get(nvme.CSTS).result == 9


@on_node
def commands_without_sense_are_refused_where_they_are_wrong(node):
    block = transport(512)
    with session(node.address, node.nqn) as (admin, queue):
        cases = (
            (rw(nvme.READ, 2048, 1, block), LBA_RANGE, 40),
            (rw(nvme.READ, 2047, 2, transport(1024)), LBA_RANGE, 40),
            (rw(nvme.READ, (1 << 64) - 1, 2, transport(1024)), LBA_RANGE, 40),
            (rw(nvme.READ, 1 << 55, 1, block), LBA_RANGE, 40),
            (rw(nvme.WRITE, 0, 65536, block), LBA_RANGE, 40),
            (rw(nvme.READ, 0, 1, block, nsid=2), NO_NAMESPACE, 4),
            (rw(nvme.READ, 0, 1, block, nsid=0xffffffff), NO_NAMESPACE, 4),
            (rw(nvme.READ, 0, 1, transport(511)), SGL_LENGTH, 24),
            (rw(nvme.READ, 0, 1, transport(1024)), SGL_LENGTH, 32),
            (rw(nvme.READ, 0, 1, sgl(0, 0, 512)), SGL_TYPE, 24),
            (rw(nvme.READ, 0, 1, sgl(0x40, 0, 512)), SGL_TYPE, 24),
            (rw(nvme.WRITE, 0, 1, in_capsule(512)), SGL_OFFSET, 24),
            (rw(nvme.WRITE, 0, 1, in_capsule(512, (1 << 64) - 1)), SGL_OFFSET, 24),
            (sqe(0x99, 7, 1), INVALID_OPCODE, 0), (sqe(4, 7, 1), INVALID_OPCODE, 0),
            (sqe(nvme.READ, 7, 1, block, flags=0x43), INVALID_FIELD, 1),
            (sqe(nvme.READ, 7, 1, block, flags=0), INVALID_FIELD, 1),
            (sqe(nvme.DSM, 7, 1, transport(16), struct.pack('<II', 1, 4)), SGL_LENGTH, 24),
            (sqe(nvme.FABRICS, 7, 9), INVALID_FIELD, 4))
        for entry, status, _ in cases:
            said = queue.ask(entry)
            assert (said.status, said.is_final) == (status, True), (entry.hex(), hex(said.status))
        log = admin.log(1, 64 * 16).data
        for number, (_, status, place) in enumerate(reversed(cases[-16:])):
            count, sqid, _, stood, where = struct.unpack_from('<QHHHH', log, 64 * number)
            assert (count, sqid) == (len(cases) - number, 1)
            assert (stood >> 1 & 0x7ff, where) == (status, place), (number, where)
        for entry, status in ((sqe(0x99), INVALID_OPCODE), (sqe(nvme.SET_FEATURES), INVALID_FIELD),
                              (sqe(nvme.GET_FEATURES, tail=b'\xfe'), INVALID_FIELD),
                              (sqe(nvme.IDENTIFY, where=transport(4095), tail=b'\1'), SGL_LENGTH),
                              (sqe(nvme.GET_LOG, tail=b'\x99'), LOG_PAGE)):
            assert admin.ask(entry).status == status, entry.hex()


@on_node
def logs_are_not_read_beyond_their_ends(node):
    with session(node.address, node.nqn, 0) as (admin,):
        for page, offset in ((1, 1028), (2, 516), (2, 1 << 63), (2, (1 << 64) - 4), (2, 2)):
            assert admin.log(page, 512, offset).status == INVALID_FIELD, (page, offset)
        assert admin.log(2, (1 << 20) + 4).status == INVALID_FIELD
        assert admin.log(2, 512, 512).data == bytes(512)
        assert admin.log(0x70, 1024).status == LOG_PAGE
    with session(node.address, nvme.DISCOVERY, 0) as (admin,):
        whole = admin.log(0x70, 2048).data
        assert struct.unpack_from('<Q', whole, 8) == (1,)
        assert whole[1280:1536].rstrip(b'\0').decode() == node.nqn
        assert whole[1056:1088].strip().decode() == str(node.address[1])
        parts = b''.join(admin.log(0x70, 512, at).data for at in range(0, 2048, 512))
        assert parts == whole
        assert admin.log(0x70, 2048, 1020).data[:1028] == whole[1020:]
        assert admin.log(0x70, 512, 2052).status == INVALID_FIELD
        assert admin.identify(0, 1).status == INVALID_FIELD
        assert admin.identify(1).data[111] == 2


@on_node
def logs_are_read_to_the_length_that_a_command_may_move(node):
    for digests, attributes in ((0, 0), (3, 0), (0, 4), (3, 4)):
        with session(node.address, node.nqn, 0, digests=digests,
                     attributes=attributes) as (admin,):
            short = admin.log(3, 512).data  # the firmware's
            assert len(short) == 512 and any(short)
            for length in ((68 << 10) + 4, 512 << 10, 1 << 20):
                said = admin.log(3, length)
                assert said.status == 0 and said.data == short.ljust(length, b'\0'), length


@on_node
def a_digest_that_is_wrong_harms_its_command_alone(node):
    with session(node.address, node.nqn, digests=3) as (_, queue):
        entry = rw(nvme.WRITE, 0, 1, in_capsule(512))
        assert queue.ask(entry, b'a' * 512, bad=nvme.DDGST).status == DIGEST
        queue.capsule(rw(nvme.WRITE, 0, 64, transport(32768)))
        assert queue.answer(b'b' * 32768, bad=nvme.DDGST).status == DIGEST
        assert queue.read(0, 1).data == bytes(512)
        queue.capsule(rw(nvme.READ, 0, 1, transport(512)), bad=nvme.HDGST)
        status, information, shown = queue.term()
        assert status == HEADER_DIGEST and len(shown) == 72
    assert node.status()['nvme_tcp']['digest_errors'] == 3


def pdu(kind, length, offset, whole, flags=0):
    return struct.pack('<BBBBI', kind, flags, length, offset, whole)


@on_node
def pdus_that_cannot_be_are_fatal_and_said_so(node):
    body = bytes(200)
    for octets, status, information in (
            (pdu(nvme.CMD, 72, 0, 71), FIELD, 4), (pdu(nvme.CMD, 71, 0, 72), FIELD, 2),
            (pdu(nvme.CMD, 72, 71, 100), FIELD, 3), (pdu(nvme.CMD, 72, 73, 100), FIELD, 3),
            (pdu(nvme.CMD, 72, 100, 100), FIELD, 4), (pdu(nvme.CMD, 72, 252, 80), FIELD, 4),
            (pdu(nvme.CMD, 72, 72, 72, nvme.HDGST), FIELD, 1),
            (pdu(nvme.CMD, 72, 72, 72 + 8193), LIMIT, 0),
            (pdu(nvme.CMD, 72, 72, 0xffffffff), LIMIT, 0),
            (pdu(nvme.H2C_DATA, 24, 24, 28), FIELD, 10),
            (pdu(nvme.RESP, 24, 0, 24), FIELD, 0), (pdu(nvme.R2T, 24, 0, 24), FIELD, 0),
            (pdu(0xff, 24, 0, 24), FIELD, 0), (pdu(nvme.IC_REQ, 128, 0, 128), ORDER, 0),
            (pdu(nvme.IC_REQ, 128, 0, 129), FIELD, 4)):
        with Queue(node.address) as queue:
            queue.put(octets + body)
            said = queue.term()
            assert said[:2] == (status, information), (octets.hex(), said)
    for octets, status, information in (
            (pdu(nvme.CMD, 72, 0, 72) + body, ORDER, 0),
            (pdu(nvme.IC_REQ, 128, 0, 128) + b'\1' + body, UNSUPPORTED, 8),
            (pdu(nvme.IC_REQ, 128, 0, 128) + b'\0\0\x20' + body, FIELD, 10),
            (pdu(nvme.IC_REQ, 64, 0, 128) + body, FIELD, 2)):
        with Queue(node.address, ready=False) as queue:
            queue.put(octets)
            assert queue.term()[:2] == (status, information), octets.hex()
    with Queue(node.address) as queue:  # the host's own last word
        queue.put(pdu(nvme.H2C_TERM, 24, 0, 24) + bytes(16))
        assert queue.is_ended()


@on_node
def data_that_were_not_asked_for_are_fatal(node):
    wrong = ((0, 9, 0, b'x' * 1024, nvme.LAST, FIELD, 10),  # another tag
             (0, 0xffff, 0, b'x' * 1024, nvme.LAST, FIELD, 10),
             (1, 0, 0, b'x' * 1024, nvme.LAST, FIELD, 8),  # another command
             (0, 0, 512, b'x' * 512, nvme.LAST, RANGE, 0),  # a gap
             (0, 0, 0, b'x' * 1025, nvme.LAST, RANGE, 0),
             (0, 0, 0, b'x' * 512, nvme.LAST, RANGE, 0),  # not the last
             (0, 0, 0, b'x' * 1024, 0, RANGE, 0),
             (0, 0, 0xfffffe00, b'x' * 1024, nvme.LAST, RANGE, 0))
    for cid, tag, offset, data, flags, status, information in wrong:
        with session(node.address, node.nqn) as (_, queue):
            queue.capsule(rw(nvme.WRITE, 0, 2, transport(1024)))
            kind, header, _ = queue.take()
            assert kind == nvme.R2T
            given, own = struct.unpack_from('<HH', header, 8)
            queue.put(queue.h2c(given + cid, own + tag & 0xffff, offset, data, flags))
            assert queue.term()[:2] == (status, information), (cid, tag, offset, flags)
    with session(node.address, node.nqn) as (_, queue):
        assert queue.read(0, 4).data == bytes(2048)


@on_node
def data_may_come_in_parts(node):
    with session(node.address, node.nqn) as (_, queue):
        queue.capsule(rw(nvme.WRITE, 0, 4, transport(2048)))
        kind, header, _ = queue.take()
        cid, tag = struct.unpack_from('<HH', header, 8)
        for at in range(0, 2048, 128):
            queue.put(queue.h2c(cid, tag, at, bytes([at // 128]) * 128,
                                nvme.LAST if at == 1920 else 0))
        assert queue.answer().status == 0
        assert queue.read(0, 4).data == b''.join(bytes([i]) * 128 for i in range(16))


@on_node
def one_octet_at_a_time_is_enough(node):
    with session(node.address, node.nqn, digests=3) as (_, queue):
        for octet in queue.pdu(nvme.CMD, rw(nvme.WRITE, 1, 1, in_capsule(512)), b'o' * 512):
            queue.put(bytes([octet]))
        assert queue.answer().status == 0
        assert queue.read(1, 1).data == b'o' * 512


@on_node
def a_full_queue_is_answered_in_whole(node):
    with session(node.address, node.nqn) as (_, queue):
        for turn in range(8):
            entries = [rw(nvme.WRITE, cid * 8, 8, in_capsule(4096), cid=cid) for cid in range(128)]
            queue.put(b''.join(queue.pdu(nvme.CMD, entry, bytes([turn + cid]) * 4096)
                               for cid, entry in enumerate(entries)))
            said = [queue.answer() for _ in range(128)]
            assert {one.cid for one in said} == set(range(128))
            assert not any(one.status for one in said)
            assert [one.sqhd for one in said] == [(turn * 128 + 2 + n) % 128 for n in range(128)]
        assert queue.read(127 * 8, 1).data == bytes([7 + 127]) * 512


@on_node
def trims_and_zeroes_read_as_zeroes(node):
    with session(node.address, node.nqn) as (_, queue):
        queue.write(0, b'x' * 65536)
        ranges = b''.join(struct.pack('<IIQ', 0, count, block)
                          for block, count in ((8, 8), (24, 0), (32, 16)))
        entry = sqe(nvme.DSM, 9, 1, in_capsule(4096), struct.pack('<II', 2, 4))
        assert queue.ask(entry, ranges.ljust(4096, b'\0')).status == 0
        assert queue.ask(rw(nvme.ZEROES, 64, 8, bytes(16), nvme.DEALLOCATE)).status == 0
        assert queue.ask(rw(nvme.ZEROES, 80, 8, bytes(16), nvme.FUA)).status == 0
        assert queue.ask(sqe(nvme.FLUSH, 9, 0xffffffff)).status == 0
        found = queue.read(0, 128).data
        gone = {*range(8, 16), *range(32, 48), *range(64, 72), *range(80, 88)}
        for block in range(128):
            assert found[block * 512] == (0 if block in gone else ord('x')), block
        beyond = struct.pack('<IIQ', 0, 2, 2047)
        entry = sqe(nvme.DSM, 9, 1, transport(16), struct.pack('<II', 0, 4))
        assert queue.ask(entry, pull=beyond).status == LBA_RANGE


@case
def a_read_only_volume_says_so_to_each_change():
    with Nvme('--read-only', 'ram:1M') as node, session(node.address, node.nqn) as (admin, queue):
        assert admin.identify(0, 1).data[99] & 1
        for entry in (rw(nvme.WRITE, 0, 1, transport(512)), rw(nvme.ZEROES, 0, 1, bytes(16)),
                      sqe(nvme.DSM, 7, 1, transport(16), struct.pack('<II', 0, 4))):
            assert queue.ask(entry).status == READ_ONLY
        assert queue.read(0, 1).status == 0


@on_node
def ranges_are_copied_to_one_place(node):
    pattern = bytes(range(256)) * 4
    with session(node.address, node.nqn, digests=3) as (_, queue):
        assert queue.write(0, pattern * 128).status == 0
        assert queue.write(700, b'x' * 512).status == 0
        ranges = struct.pack('<8xQH14x', 1, 255) + struct.pack('<8xQH14x', 700, 0)
        entry = sqe(nvme.COPY, 7, 1, in_capsule(64), struct.pack('<QI', 1000, 1))
        said = queue.ask(entry, ranges)
        assert (said.status, said.result) == (0, 0)
        assert queue.read(1000, 257).data == (pattern * 128)[512:] + bytes(512) + b'x' * 512
        assert queue.read(999, 1).data == queue.read(1257, 1).data == bytes(512)


@case
def blocks_are_verified_where_they_are():
    with Nvme('ram:2M') as node, session(node.address, node.nqn) as (_, queue):
        for count, status in ((1, 0), (2048, 0), (2049, INVALID_FIELD)):
            said = queue.ask(rw(nvme.VERIFY, 0, count, bytes(16)))
            assert (said.status, said.data) == (status, b''), count


@case
def what_a_device_says_becomes_a_status():
    for how, said in (('media', (UNREAD, UNWRITTEN)), ('no-space', (CAPACITY, CAPACITY)),
                      ('unsupported', (INVALID_OPCODE, INVALID_OPCODE))):
        with Nvme(f'error+ram:1M?error=100%&error.as={how}') as node:
            with session(node.address, node.nqn) as (_, queue):
                found = queue.read(0, 1), queue.write(0, b'x' * 512)
                assert queue.ask(rw(nvme.VERIFY, 0, 1, bytes(16))).status == said[0], how
                assert tuple(one.status for one in found) == said, (how, found)
                assert found[0].is_final


@case
def a_host_sees_and_uses_what_it_may():
    with folder() as place:
        config = place / 'node.ini'
        config.write_text(f'[volume open]\nuri = ram:1M\n[volume closed]\nuri = ram:2M\n'
                          f'allow = {OTHER}\n')
        with Nvme(f'--config={config}') as node:
            def seen(host):
                with session(node.address, nvme.DISCOVERY, 0, host=host) as (admin,):
                    log = admin.log(0x70, 4096).data
                    count, = struct.unpack_from('<Q', log, 8)
                    return [log[1024 * i + 1280:1024 * i + 1536].rstrip(b'\0').decode()
                            for i in range(count)]
            assert seen(HOST) == node.nqns[:1] and seen(OTHER) == node.nqns
            with Queue(node.address) as queue:
                said = queue.connect(node.nqns[1])
                assert (said.status, said.is_final) == (BAD_HOST, True)
            with session(node.address, node.nqns[1], host=OTHER) as (_, queue):
                assert queue.read(0, 1).status == 0


@case
def a_uri_may_name_the_hosts_that_may_use_the_volume():
    for uri in (f'null:1M?allow={HOST}', f'delay+null:1M?allow={HOST}&delay.write=1ms&allow=x',
                f'delay+null:1M?delay.write=1ms&allow={HOST}'):
        with Nvme(uri) as node:
            with Queue(node.address) as queue:
                assert queue.connect(node.nqn, host=OTHER).status == BAD_HOST
                assert queue.connect(node.nqn).status == 0
    said = weft('serve', 'null:1M?allow=' + 'n' * 256)
    assert said.returncode == 2 and 'too long a name' in said.stderr, said


@on_node
def a_refused_host_does_not_write_the_log(node):
    forged = 'x" at 1.2.3.4 is refused\nweft: all is well\x1b[2J\x9b'
    with Queue(node.address) as queue:
        assert queue.connect('nqn.2026-11.test:\r\x07', host=forged).status == BAD_PARAMETER
    line, = node.said().splitlines()
    assert line.isprintable() and line.isascii(), line
    assert r'host "x\x22 at 1.2.3.4 is refused\x0aweft: all is well\x1b[2J\xc2\x9b" at' in line
    assert r'is refused "nqn.2026-11.test:\x0d\x07": there is no such subsystem' in line


@on_node
def a_host_that_is_not_heard_of_is_let_go(node):
    with session(node.address, node.nqn, kato=200) as (admin, queue):
        assert queue.is_ended() and admin.is_ended()
    until(lambda: node.status()['nvme']['sessions'] == 0)
    assert node.status()['nvme']['expired'] == 1


@on_node
def a_host_that_goes_amid_a_write_changes_nothing(node):
    with session(node.address, node.nqn) as (_, queue):
        queue.capsule(rw(nvme.WRITE, 0, 8, transport(4096)))
        kind, header, _ = queue.take()
        cid, tag = struct.unpack_from('<HH', header, 8)
        queue.put(queue.h2c(cid, tag, 0, b'x' * 4096)[:1000])
    with session(node.address, node.nqn) as (_, queue):
        assert queue.read(0, 8).data == bytes(4096)


@on_node
def hosts_that_go_leave_nothing_behind(node):
    for _ in range(20):
        with session(node.address, node.nqn, 2) as (admin, first, second):
            admin.capsule(sqe(nvme.AER, 31))
            for cid in range(32):
                first.capsule(rw(nvme.READ, 0, 1024, transport(1 << 19), cid=cid))
                second.capsule(rw(nvme.WRITE, 0, 1024, transport(1 << 19), cid=cid))

    def settled():
        found = node.status()
        return (found['connections'], found['pool_taken'], found['nvme']['sessions']) == (0, 0, 0)
    until(settled)


@case
def events_tell_of_what_has_changed():
    with folder() as place:
        disk, config = place / 'disk', place / 'node.ini'
        disk.write_bytes(bytes(1 << 20))
        config.write_text(f'[volume disk]\nuri = file:{disk}\n')
        with Nvme(f'--config={config}') as node:
            with contextlib.ExitStack() as stack:
                admin, queue = stack.enter_context(session(node.address, node.nqn))
                found, = stack.enter_context(session(node.address, nvme.DISCOVERY, 0))
                admin.feature(0xb, 0x100)
                found.feature(0xb, 1 << 31)
                for number in range(4):
                    admin.capsule(sqe(nvme.AER, 20 + number))
                assert admin.ask(sqe(nvme.AER, 30)).status == AER_LIMIT
                found.capsule(sqe(nvme.AER, 20))
                generation, = struct.unpack_from('<Q', found.log(0x70, 1024).data)
                with open(disk, 'r+b') as out:
                    out.truncate(2 << 20)
                weft('rescan', node.process.pid)
                said = admin.answer()
                assert (said.status, said.result, said.cid) == (0, 0x00040002, 20)
                assert struct.unpack_from('<Q', admin.identify(0, 1).data) == (4096,)
                assert queue.read(4095, 1).status == 0
                assert admin.log(4, 4096).data[:8] == struct.pack('<II', 1, 0)
                assert admin.log(4, 4096).data[:4] == bytes(4)
                config.write_text(config.read_text() + '[volume more]\nuri = ram:1M\n')
                weft('rescan', node.process.pid)
                said = found.answer()
                assert (said.status, said.result) == (0, 0x0070f002)
                log = found.log(0x70, 1024).data  # the first volume's size does not count
                assert struct.unpack_from('<QQ', log) == (generation + 1, 2)
                assert found.log(0x70, 1024).data == log
                config.write_text('[volume more]\nuri = ram:1M\n')  # the first one goes
                weft('rescan', node.process.pid)
                assert queue.is_ended() and admin.is_ended()


def both_at_once(client, queue, turn):
    """Writes of both protocols are under way together, half of 256 KiB each; each reads all."""
    half = 128 << 10
    first, second = (bytes([turn * 2 % 256 + which]) * half for which in range(2))
    for cookie in range(4):
        part = half // 4
        client.request(WRITE, cookie * part, part, cookie=cookie, data=first[:part])
        queue.capsule(rw(nvme.WRITE, (half + cookie * part) // 512, part // 512, transport(part),
                         cid=cookie))
    assert {queue.answer(second[:half // 4]).status for _ in range(4)} == {0}
    said = {struct.unpack('>IIQ', client.take(16))[1:] for _ in range(4)}
    assert said == {(0, cookie) for cookie in range(4)}
    client.request(READ, 0, 2 * half)
    queue.capsule(rw(nvme.READ, 0, 2 * half // 512, transport(2 * half)))
    assert queue.answer().data == first + second
    assert client.answer(2 * half) == (0, first + second)


@case
def two_protocols_move_the_data_of_one_volume_at_once():
    with Nvme('ram:1M') as node, Client(node).go() as client:
        with session(node.address, node.nqn) as (_, queue):
            for turn in range(60):
                if turn == 30:
                    os.kill(node.rtas()[0], signal.SIGKILL)
                both_at_once(client, queue, turn)
        found = node.status()
        assert found['rtas'][0]['restarts'] == 1
        octets = found['volumes'][0]['octets']
        assert octets['write'] == 60 * (256 << 10) and octets['read'] == 60 * (512 << 10), octets


@case
def a_host_that_resets_is_not_overtaken_by_its_former_self():
    with Nvme('delay+ram:1M?delay.write=1s') as node:
        with session(node.address, node.nqn) as (_, queue):
            queue.capsule(rw(nvme.WRITE, 0, 1, in_capsule(512)), b'1' * 512)
            until(lambda: node.status()['rtas'][0]['in_flight'] == 1)
        with session(node.address, node.nqn) as (_, queue):
            # Connected: the former write is over, whatever it did.
            assert node.status()['rtas'][0]['in_flight'] == 0
            assert queue.read(0, 1).data == b'1' * 512


main()
