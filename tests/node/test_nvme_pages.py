#!/usr/bin/env python3
"""What the NVMe controllers tell of themselves, octet for octet: Identify, logs, features."""

import re
import struct

import nvme_host as nvme
from nvme_host import Queue, rw, session, sqe, transport
from serving import Nvme, case, folder, main, os, weft

INVALID_OPCODE, INVALID_FIELD, NO_NAMESPACE, SEQUENCE = 1, 2, 0xb, 0xc
LOG_PAGE, NOT_SAVEABLE, NOT_CHANGEABLE, AER_LIMIT = 0x109, 0x10d, 0x10e, 0x105
ABORTED, RANGE = 8, 0x80
SAVE = 1 << 31
U16, U32, U64 = '<H', '<I', '<Q'


def page(length, *fields):
    """Zeroes, and (offset, value or (form, number)) in them."""
    octets = bytearray(length)
    for offset, value in fields:
        value = struct.pack(*value) if isinstance(value, tuple) else value
        octets[offset:offset + len(value)] = value
    return bytes(octets)


def same(found, wanted):
    """Says which octets differ."""
    wrong = [(at, found[at], wanted[at]) for at in range(min(len(found), len(wanted)))
             if found[at] != wanted[at]]
    assert not wrong and len(found) == len(wanted), (len(found), len(wanted), wrong[:20])


def text(value, length):
    return value.encode().ljust(length)


class Facts:
    """What a controller's pages are to say."""

    def __init__(self, node, name, **options):
        self.node = node
        self.uuid = node.nqn.rpartition(':')[2]
        self.blocks, self.cntlid, self.vwc, self.oncs, self.is_read_only = 2048, 1, 6, 0x1bd, False
        self.name = name
        self.preferred = 8
        vars(self).update(options)

    def controller(self):
        return page(
            4096, (4, text(self.uuid.replace('-', '')[:20], 20)),
            (24, text(f'weft {self.name}'[:40], 40)), (64, text('1', 8)), (76, b'\x0a\x08'),
            (78, (U16, self.cntlid)), (80, (U32, 0x10400)), (92, (U32, 1 << 8 | 1 << 11)),
            (96, (U32, 1 | 1 << 6)), (111, b'\1'), (258, b'\3\3\3\x26\x0f'), (320, (U16, 1)),
            (342, b'\x0a\x45'), (344, (U32, 256)), (348, (U32, 256)),
            (512, b'\x66\x44'), (514, (U16, 128)), (516, (U32, 256)), (520, (U16, self.oncs)),
            (522, (U16, 1)), (525, bytes([self.vwc])), (532, (U16, 1023)), (534, (U16, 1)),
            (536, (U32, 1 | 1 << 20 | 1 << 21)), (540, (U32, 256)),
            (768, self.node.nqn.encode()), (1792, (U32, (64 + 8192) // 16)), (1796, (U32, 1)),
            (1803, b'\1'))

    def namespace(self, uuid, nguid):
        number = self.preferred - 1
        can_trim = bool(self.oncs & 4)
        return page(
            4096, (0, struct.pack('<QQQ', self.blocks, self.blocks, self.blocks)),
            (24, bytes([1 << 4 | can_trim])), (30, b'\1\xfe'), (33, bytes([9 if can_trim else 0])),
            (64, struct.pack('<HHHHHHIB', *[number] * 5, 32768, 32768, 127)), (92, (U32, 1)),
            (99, bytes([self.is_read_only])), (104, nguid), (130, b'\x09'),
            (384, b'lineage\0\1'), (400, uuid))

    def check(self, admin):
        described = admin.identify(3, 1).data
        uuid, nguid = bytes.fromhex(self.uuid.replace('-', '')), described[24:40]
        assert any(nguid) and nguid != uuid
        same(described, page(4096, (0, b'\3\x10\0\0' + uuid), (20, b'\2\x10\0\0' + nguid),
                             (40, b'\4\1\0\0\0')))
        same(admin.identify(1).data, self.controller())
        same(admin.identify(0, 1).data, self.namespace(uuid, nguid))
        same(admin.identify(2, 0).data, page(4096, (0, b'\1')))
        same(admin.identify(2, 1).data, bytes(4096))
        same(admin.identify(5, 1).data, bytes(4096))
        same(admin.identify(8, 1).data, page(4096, (1, b'\1\xfe'), (4, (U32, 1)),
                                             (8, bytes([self.is_read_only])), (14, b'\1')))
        same(admin.identify(6).data, page(4096, (0, bytes([8, 13]))))


@case
def identify_tells_of_a_volume_in_memory():
    with Nvme('ram:1M') as node, session(node.address, node.nqn) as (admin, _):
        Facts(node, 'ram').check(admin)


@case
def identify_tells_of_a_volume_that_only_reads():
    with Nvme('-r', 'ram:1M') as node, session(node.address, node.nqn) as (admin, _):
        Facts(node, 'ram', oncs=0xb1, is_read_only=True).check(admin)


@case
def identify_tells_of_a_file():
    with folder() as place:
        disk = place / ('a-name-of-more-than-twenty-octets-' + 'x' * 20)
        disk.write_bytes(bytes(3 << 20))
        with Nvme(disk) as node, session(node.address, node.nqn) as (admin, _):
            preferred = os.statvfs(disk).f_bsize // 512
            Facts(node, disk.name, vwc=7, blocks=6144, preferred=preferred).check(admin)


@case
def a_volume_has_the_identity_it_is_given():
    nguid = '00112233445566778899aabbccddeeff'
    with folder() as place:
        config = place / 'node.ini'
        config.write_text(f'[volume a]\nuri = ram:1M\nnguid = {nguid}\n')
        with Nvme(f'--config={config}') as node, session(node.address, node.nqn) as (admin, _):
            assert admin.identify(3, 1).data[24:40].hex() == nguid
            assert admin.identify(0, 1).data[104:120].hex() == nguid


@case
def controllers_of_a_volume_are_listed():
    with Nvme('a=ram:1M', 'b=ram:1M') as node, session(node.address, node.nqns[0]) as (first, _), \
            session(node.address, node.nqns[1]) as (other, _), \
            session(node.address, nvme.DISCOVERY, 0), \
            session(node.address, node.nqns[0]) as (second, _):
        assert struct.unpack_from(U16, second.identify(1).data, 78) == (4,)
        for admin, start, numbers in ((first, 0, (1, 4)), (first, 1, (1, 4)), (second, 2, (4,)),
                                      (first, 4, (4,)), (first, 5, ()), (other, 0, (2,))):
            listed = page(4096, (0, struct.pack(f'<{len(numbers) + 1}H', len(numbers), *numbers)))
            same(admin.identify(0x13 | start << 16).data, listed)
            same(admin.identify(0x12 | start << 16, 1).data, listed)
        for cns, nsid, status in ((0x12, 0, NO_NAMESPACE), (0x12, 2, NO_NAMESPACE),
                                  (5, 0, NO_NAMESPACE), (0x14, 0, INVALID_FIELD),
                                  (0x10, 0, INVALID_FIELD), (0xff, 0, INVALID_FIELD),
                                  (2, 0xffffffff, NO_NAMESPACE), (2, 0xfffffffd, 0)):
            assert first.identify(cns, nsid).status == status, (cns, nsid)
        for cns, status in ((5, INVALID_FIELD), (6, INVALID_FIELD), (1, 0)):  # another command set
            entry = sqe(nvme.IDENTIFY, 4, 1, transport(4096), struct.pack('<II', cns, 1 << 24))
            assert first.ask(entry).status == status, cns


@case
def the_discovery_controller_tells_of_itself():
    with Nvme('ram:1M') as node, session(node.address, nvme.DISCOVERY, 0) as (admin,):
        same(admin.identify(1).data, page(
            4096, (4, text('discovery', 20)), (24, text('weft discovery', 40)), (64, text('1', 8)),
            (76, b'\2\4'), (78, (U16, 1)), (80, (U32, 0x10400)), (92, (U32, 1 << 31)),
            (96, (U32, 1 | 1 << 6)), (111, b'\2'), (258, b'\3\3\3\4\x0f'), (320, (U16, 1)),
            (514, (U16, 128)), (536, (U32, 1 | 1 << 20 | 1 << 21)),
            (768, nvme.DISCOVERY.encode()), (1792, (U32, 4)), (1796, (U32, 1)), (1803, b'\1')))
        for cns in (0, 2, 3, 5, 6, 0x12, 0x13):
            assert admin.identify(cns, 1).status == INVALID_FIELD, cns
        assert admin.ask(sqe(nvme.ABORT)).status == INVALID_OPCODE
        for number in (2, 3, 4, 0x13):
            assert admin.log(number, 512).status == LOG_PAGE, number
        same(admin.log(0, 1024).data, page(1024, *((4 * lid, b'\1') for lid in (0, 1, 0x12, 0x70))))


@case
def the_discovery_log_has_an_entry_for_each_volume_and_address():
    with Nvme('--nvme-rdma=127.0.0.1:0', 'a=ram:1M', 'b=ram:1M') as node, \
            session(node.address, nvme.DISCOVERY, 0) as (admin,):
        entries = []
        for nqn, volume in zip(node.nqns, node.status()['volumes']):
            for kind, scheme in ((1, 'rdma'), (3, 'tcp')):
                port = re.search(rf'nvme\+{scheme}://127\.0\.0\.1:(\d+)/', str(volume['uris']))[1]
                entries.append(page(
                    1024, (0, bytes([kind, 1, 2, 4])), (4, (U16, 1 if kind == 1 else 2)),
                    (6, (U16, 0xffff)), (8, (U16, 128)), (32, text(port, 32)), (256, nqn.encode()),
                    (512, text('127.0.0.1', 256)), (768, b'\1\1\1' if kind == 1 else b'')))
        generation, = struct.unpack(U64, admin.log(0x70, 8).data)
        assert generation in (1, 2)  # both volumes at once, or one after the other
        whole = page(1024, (0, (U64, generation)), (8, (U64, 4))) + b''.join(entries)
        same(admin.log(0x70, 5120).data, whole)
        for offset, length in ((0, 4), (4, 8), (1020, 8), (1024, 1024), (2044, 12), (2048, 3072),
                               (5116, 8), (5120, 4)):
            same(admin.log(0x70, length, offset).data, (whole + bytes(8))[offset:offset + length])
        assert admin.log(0x70, 4, 5124).status == INVALID_FIELD


@case
def logs_tell_what_has_been():
    with Nvme('ram:1M') as node, session(node.address, node.nqn) as (admin, queue):
        smart = (1, (U16, 293)), (3, b'\x64')
        same(admin.log(2, 512).data, page(512, *smart))
        same(admin.log(3, 512).data, page(512, (0, b'\1'), (8, text('1', 8))))
        same(admin.log(4, 4096).data, bytes(4096))
        same(admin.log(1, 1024).data, bytes(1024))
        assert queue.write(1, bytes(1024)).status == 0 and queue.read(1, 1).status == 0
        assert queue.ask(rw(nvme.READ, 0x123456789a, 1, transport(512), cid=0x77)).status == RANGE
        assert admin.ask(sqe(0x99, 0x1234, 0xabcdef01)).status == INVALID_OPCODE
        errors = page(64, (0, (U64, 2)), (10, (U16, 0x1234)), (12, (U16, 0x4001 << 1)),
                      (24, (U32, 0xabcdef01)), (29, b'\3'))
        errors += page(64, (0, (U64, 1)), (8, (U16, 1)), (10, (U16, 0x77)),
                       (12, (U16, 0x4080 << 1)), (14, (U16, 40)), (16, (U64, 0x123456789a)),
                       (24, (U32, 1)), (29, b'\3'))
        # The status as it was answered with, MORE among it.
        found = bytearray(admin.log(1, 1024).data)
        for at in (12, 76):
            assert found[at + 1] & 0x40
            found[at + 1] &= ~0x40
        same(bytes(found), errors.ljust(1024, b'\0'))
        same(admin.log(2, 512).data, page(512, *smart, (32, (U64, 1)), (48, (U64, 1)),
                                          (64, (U64, 1)), (80, (U64, 1)), (176, (U64, 2))))
        for _ in range(20):
            queue.ask(sqe(0x99, 7))
        assert [struct.unpack_from(U64, admin.log(1, 1024).data, 64 * i)[0] for i in range(16)] == \
            list(range(22, 6, -1))


@case
def features_are_what_they_are():
    every = 1, 2, 5, 10
    with folder() as place:
        disk = place / 'disk'
        disk.write_bytes(bytes(1 << 20))
        with Nvme(disk) as node, session(node.address, node.nqn, 0) as (admin,):
            def get(number, which=0):
                tail = struct.pack('<II', number, which)
                said = admin.ask(sqe(nvme.GET_FEATURES, 6, tail=tail))
                return said.status, said.result

            def set_to(number, value):
                said = admin.feature(number, value)
                return said.status, said.result
            for number in every:
                assert get(number) == (0, 0), number
                assert set_to(number, 0) == (NOT_CHANGEABLE, 0), number
            assert get(6) == (0, 1) and set_to(6, 0) == (NOT_CHANGEABLE, 0)
            assert set_to(4, 0) == (NOT_CHANGEABLE, 0)  # nothing is over one, nor under the other
            assert [get(4, which << 20) for which in (0, 1)] == [(0, 0xffff), (0, 0)]
            assert {get(4, which << 20) for which in (2, 3)} == {(INVALID_FIELD, 0)}
            for number in (0, 3, 8, 9, 0xff):
                assert get(number) == (INVALID_FIELD, 0), number
                assert set_to(number, 0) == (INVALID_FIELD, 0), number
            assert set_to(SAVE | 11, 0) == (NOT_SAVEABLE, 0)
            assert get(7) == (0, 15 << 16 | 15)
            for wish, granted in ((0, 0), (5 | 2 << 16, 2), (2 | 5 << 16, 2), (14 | 14 << 16, 14),
                                  (15 | 15 << 16, 15), (16 | 16 << 16, 15),
                                  (0xfffe | 0xfffe << 16, 15)):
                assert set_to(7, wish) == (0, granted << 16 | granted), hex(wish)
                assert get(7) == (0, granted << 16 | granted), hex(wish)
            for wish in (0xffff, 0xffff << 16, 0xffffffff):
                assert set_to(7, wish) == (INVALID_FIELD, 0), hex(wish)
            assert get(15) == (0, 0) and set_to(15, 123456) == (0, 0) and get(15) == (0, 123456)
            for value, kept in ((0, 0), (0xffffffff, 1 << 8 | 1 << 11), (1 << 9, 0)):
                assert set_to(11, value) == (0, 0) and get(11) == (0, kept), value
            said = admin.ask(sqe(nvme.ABORT, 7))
            assert (said.status, said.result) == (0, 1)
        with Nvme('ram:1M') as node, session(node.address, node.nqn) as (admin, _):
            said = admin.ask(sqe(nvme.GET_FEATURES, 6, tail=bytes([6])))
            assert (said.status, said.result) == (0, 0)
            with session(node.address, nvme.DISCOVERY, 0) as (found,):
                found.feature(11, 0xffffffff)
                said = found.ask(sqe(nvme.GET_FEATURES, 6, tail=bytes([11])))
                assert (said.status, said.result) == (0, 1 << 31)
                said = found.ask(sqe(nvme.GET_FEATURES, 6, tail=bytes([7])))
                assert (said.status, said.result) == (0, 0)


@case
def queues_are_counted_before_there_are_any():
    with Nvme('ram:1M') as node, session(node.address, node.nqn, 0) as (admin,):
        cntlid = struct.unpack_from('<H', admin.identify(1).data, 78)[0]

        def add(qid):
            queue = Queue(node.address)
            assert queue.connect(node.nqn, qid=qid, cntlid=cntlid).status == 0
            return queue
        with add(16):  # as many as there may be, for who has not said how many it wants
            assert admin.feature(7, 0).status == SEQUENCE
            assert admin.set(nvme.CC, 0).status == 0  # which ends them
            assert admin.set(nvme.CC, nvme.ENABLE).status == 0
            assert admin.feature(7, 0).status == 0
        with add(1), Queue(node.address) as second:
            assert second.connect(node.nqn, qid=2, cntlid=cntlid).status == 0x182


@case
def the_host_identifier_is_the_connect_s():
    with Nvme('ram:1M') as node:
        with session(node.address, node.nqn, 0, hostid=bytes(range(16))) as (admin,):
            def get(which, length=16):
                return admin.ask(sqe(nvme.GET_FEATURES, 6, 0, transport(length),
                                     struct.pack('<II', 0x81, which)))
            assert get(1).data == bytes(range(16))
            assert get(0).status == INVALID_FIELD  # the one of 8 octets
            assert get(1, 8).status == 0xf
            assert admin.feature(0x81, 1).status == SEQUENCE


@case
def properties_are_told_whole():
    with Nvme('ram:1M') as node, Queue(node.address) as queue:
        assert queue.connect(node.nqn).status == 0
        assert queue.get(nvme.CAP, 1).result == 127 | 1 << 16 | 30 << 24 | 1 << 37
        assert queue.get(nvme.VS).result == 0x10400
        assert (queue.get(nvme.CC).result, queue.get(nvme.CSTS).result) == (0, 0)
        for config, status in ((nvme.ENABLE, 1), (1, 2), (1 | 6 << 16, 2), (1 | 4 << 20, 2),
                               (nvme.ENABLE | 1 << 4, 2), (nvme.ENABLE | 4 << 4, 2),
                               (nvme.ENABLE | 1 << 11, 2), (nvme.ENABLE | 7 << 11, 2),
                               (nvme.ENABLE | 1 << 7, 2), (nvme.ENABLE | 8 << 7, 2),
                               (nvme.ENABLE | 1 << 14, 9), (nvme.ENABLE | 2 << 14, 9)):
            assert queue.set(nvme.CC, config).status == 0
            assert queue.get(nvme.CC).result == config
            assert queue.get(nvme.CSTS).result == status, hex(config)
            assert queue.set(nvme.CC, config & ~1 & 0x3fff).status == 0
            assert queue.get(nvme.CSTS).result == 0, hex(config)
        for size in (1, 2, 7):
            entry = sqe(nvme.FABRICS, 3, nvme.PROPERTY_SET,
                        tail=struct.pack('<B3xIQ', size, nvme.CC, nvme.ENABLE))
            assert queue.ask(entry).status == INVALID_FIELD, size
        assert queue.get(nvme.CSTS).result == 0
        with session(node.address, nvme.DISCOVERY, 0) as (found,):
            found.set(nvme.CC, 0)
            found.set(nvme.CC, 1)  # entries of I/O queues need no size there
            assert found.get(nvme.CSTS).result == 1


@case
def a_controller_that_is_not_enabled_keeps_alive_and_no_more():
    with Nvme('ram:1M') as node, Queue(node.address) as queue:
        assert queue.ask(sqe(nvme.KEEP_ALIVE)).status == SEQUENCE
        queue.connect(node.nqn)
        assert queue.ask(sqe(nvme.KEEP_ALIVE)).status == 0
        for opcode in (nvme.GET_LOG, nvme.IDENTIFY, nvme.ABORT, nvme.SET_FEATURES,
                       nvme.GET_FEATURES, nvme.AER):
            assert queue.ask(sqe(opcode, where=transport(4096))).status == SEQUENCE, opcode


@case
def an_event_is_told_once_until_its_log_is_read():
    with folder() as place:
        disk = place / 'disk'
        disk.write_bytes(bytes(1 << 20))
        with Nvme(disk) as node, session(node.address, node.nqn) as (admin, _):
            def resize(blocks):
                os.truncate(disk, blocks * 512)
                weft('rescan', node.process.pid)

            def is_silent():  # whatever comes first is the answer to this
                return admin.ask(sqe(nvme.KEEP_ALIVE, 77)).cid == 77
            for number in range(4):
                admin.capsule(sqe(nvme.AER, 20 + number))
            resize(2056)
            assert is_silent()  # nobody has asked for it
            admin.capsule(sqe(nvme.SET_FEATURES, 6, tail=struct.pack('<II', 11, 1 << 8)))
            assert admin.answer().cid == 6
            resize(2064)
            said = admin.answer()
            assert (said.status, said.result, said.cid) == (0, 0x00040002, 20)
            resize(2072)
            assert is_silent()
            same(admin.log(4, 4096, keep=1).data, page(4096, (0, b'\1')))
            assert is_silent()
            admin.capsule(sqe(nvme.GET_LOG, 5, 0, transport(4096), struct.pack('<HH', 4, 1023)))
            said = {one.cid: one for one in (admin.answer(), admin.answer())}
            same(said[5].data, page(4096, (0, b'\1')))
            assert said[21].result == 0x00040002
            same(admin.log(4, 4096).data, bytes(4096))
            assert is_silent()
            for number in (30, 31):
                admin.capsule(sqe(nvme.AER, number))
            assert admin.ask(sqe(nvme.AER, 32)).status == AER_LIMIT
            admin.set(nvme.CC, 0)  # ends what it was asked to tell, and forgets it
            assert [admin.answer().status for _ in range(4)] == [ABORTED, ABORTED, ABORTED, 0]
            admin.set(nvme.CC, nvme.ENABLE)
            resize(2080)
            assert is_silent()


main()
