#!/usr/bin/env python3
"""Several volumes as logical units of one iSCSI target: which there are, that they are apart, that
they come and go while a session lasts."""

import re
import struct

import iscsi_host as iscsi
from iscsi_host import READ, WRITE, Initiator
from serving import Iscsi, case, expect_error, folder, main, need, run, until, weft

TARGET = 'iqn.2026-11.test:group'
OTHER = 'iqn.2026-11.test:me'
ILLEGAL, ATTENTION = 5, 6
NO_UNIT, POWER_ON, UNITS_CHANGED = (ILLEGAL, 0x25, 0), (ATTENTION, 0x29, 0), (ATTENTION, 0x3f, 0x0e)
CONFLICT = 0x18
RESET_UNIT, ABORT_SET = 0x85, 0x82


def of_target(name, more='', size='1M'):
    return f'{name}=ram:{size}?target={TARGET}{more}'


def session(node, target=TARGET, isid=b'\x80weft0'):
    host = Initiator(node.address)
    agreed = host.login(target, isid=isid)
    assert isinstance(agreed, dict), hex(agreed)
    return host


def report(host, lun=0):
    """The numbers that REPORT LUNS has, asked of any unit."""
    said = host.ask([0xa0, 0, 0, 0, 0, 0, 0, 0, 16, 8], 4104, READ, lun=lun)
    assert said.opcode == iscsi.DATA_IN, said.opcode
    length, = struct.unpack_from('>I', said.data)
    return [int.from_bytes(said.data[at:at + 8], 'big') >> 48 for at in range(8, 8 + length, 8)]


def inquiry(host, lun):
    """The first octet: qualifier and type."""
    return host.ask([0x12, 0, 0, 0, 96], 96, READ, lun=lun).data[0]


def ready(host, lun):
    """The sense that TEST UNIT READY has; None: it is."""
    said = host.ask([0], lun=lun)
    return said.sense if said.status else None


def write(host, lun, octet):
    """One block, with the command."""
    host.command([0x2a, 0, 0, 0, 0, 0, 0, 0, 1], 512, WRITE, bytes([octet]) * 512, lun=lun)
    return host.receive().header[3]


def task(host, function, lun):
    host.send(0x40 | iscsi.TASK, function, 78, fields=struct.pack('>II', 0, host.cmdsn),
              lun=lun << 48)
    said = host.receive()
    assert said.opcode == iscsi.TASK_RESPONSE, said.opcode
    return said.header[2]


def add(node, wish):
    assert weft('rescan', f'--add={wish}', node.process.pid).returncode == 0


def remove(node, name):
    assert weft('rescan', f'--remove={name}', node.process.pid).returncode == 0


@case
def libiscsi_finds_all_units_of_a_target():
    need('iscsi-ls', 'iscsi-inq', 'iscsi-readcapacity16')
    with Iscsi(of_target('a', '&lun=3', '4M'), of_target('b'), of_target('c', size='2M'),
               'd=ram:1M') as node:
        found = {row['name']: (row['target'], row['lun']) for row in node.status()['volumes']}
        assert [found[name] for name in 'abc'] == [(TARGET, 3), (TARGET, 0), (TARGET, 1)], found
        assert found['d'] == (node.urls[3].split('/')[3], 0)
        told = weft('status', node.process.pid).stdout
        assert f'unit: 3 of {TARGET}\n' in told and told.count('unit: ') == 3, told
        said = run('iscsi-ls', '-s', node.portal)
        assert said.count('Target:') == 2 and said.count(f'Target:{TARGET}') == 1, said
        units = re.findall(r'Lun:(\d+)', said.partition(TARGET)[2].partition('Target:')[0])
        assert units == ['0', '1', '3'], said
        for name, blocks in (('a', 8191), ('b', 2047), ('c', 4095)):
            url = next(url for row in node.status()['volumes'] for url in row['uris']
                       if row['name'] == name and url.startswith('iscsi:'))
            assert url.endswith(f'/{found[name][1]}'), url
            assert 'DIRECT_ACCESS' in run('iscsi-inq', url)
            said = run('iscsi-readcapacity16', url)
            assert f'RETURNED LOGICAL BLOCK ADDRESS:{blocks}' in said, said


@case
def what_is_written_to_one_unit_is_in_no_other():
    with Iscsi(of_target('a'), of_target('b'), of_target('c', '&lun=255')) as node:
        with session(node) as host:
            luns = (0, 1, 255)
            assert report(host) == list(luns)
            for lun in luns:
                assert ready(host, lun) == POWER_ON
                assert write(host.ready(lun), lun, 0x10 + lun % 16) == 0
            for lun in luns:
                assert set(host.read(0, 1, lun)) == {0x10 + lun % 16}


@case
def a_number_is_read_in_either_way_of_one_level():
    peripheral, flat, unit, bus, level = (1 << 48, 0x4001 << 48, 0x8001 << 48, 0x0101 << 48,
                                          1 << 48 | 1 << 32)
    with Iscsi(of_target('a'), of_target('b')) as node, session(node) as host:
        host.ready(peripheral)
        assert write(host, peripheral, 7) == 0
        assert set(host.read(0, 1, flat)) == {7}
        for lun in (unit, bus, level):
            assert inquiry(host, lun) == 0x7f and ready(host, lun) == NO_UNIT, hex(lun)


@case
def data_are_asked_for_by_the_number_that_the_command_had():
    """RFC 7143 section 11.8: it stands in R2Ts, and goes with their tags."""
    with Iscsi(of_target('a'), of_target('b')) as node, session(node) as host:
        for lun in 1 << 48, 0x4001 << 48:
            host.ready(lun)
            tag = host.write_begin(0, 1, lun=lun)
            asked = host.receive()
            assert int.from_bytes(asked.header[8:16], 'big') == lun, asked.header
            host.data_out(tag, asked.ttt, 0, bytes(512))
            assert host.receive().status == 0


@case
def a_number_of_no_unit_is_answered_as_such():
    """Also that of the first, which a target need not have."""
    with Iscsi(of_target('a', '&lun=5')) as node, session(node) as host:
        for lun in (0, 4, 6):
            assert inquiry(host, lun) == 0x7f
            assert ready(host, lun) == NO_UNIT
            assert write(host, lun, 1) == 2
            assert host.ask([0x12, 1, 0x83, 0, 96], 96, READ, lun=lun).sense == (ILLEGAL, 0x24, 0)
            assert report(host, lun) == [5]
            assert task(host, ABORT_SET, lun) == task(host, RESET_UNIT, lun) == 2
        assert inquiry(host, 5) == 0
        assert task(host, ABORT_SET, 5) == task(host, RESET_UNIT, 5) == 0


@case
def a_unit_that_comes_is_told_to_the_others():
    with Iscsi('--allow-add', of_target('a'), of_target('b')) as node, session(node) as host:
        host.ready(0).ready(1)
        add(node, of_target('c', size='2M'))
        until(lambda: ready(host, 0) == UNITS_CHANGED)
        assert ready(host, 0) is None
        assert report(host) == [0, 1, 2]  # which is all that it would have told
        assert ready(host, 1) is None
        assert ready(host, 2) == POWER_ON
        assert write(host, 2, 9) == 0 and set(host.read(0, 1, 2)) == {9}


@case
def a_unit_that_goes_leaves_the_others_at_work():
    with Iscsi('--allow-add', of_target('a'), of_target('b')) as node, session(node) as host:
        host.ready(0).ready(1)
        assert node.status()['connections'] == 2
        remove(node, 'a')
        until(lambda: ready(host, 1) == UNITS_CHANGED)
        assert report(host, 1) == [1] and ready(host, 0) == NO_UNIT
        assert write(host, 1, 3) == 0
        until(lambda: node.status()['connections'] == 1)
        add(node, of_target('c', '&lun=0', '2M'))  # another volume in its place
        until(lambda: ready(host, 1) == UNITS_CHANGED)
        assert ready(host, 0) == POWER_ON
        capacity = host.ask([0x25], 8, READ).data
        assert struct.unpack('>II', capacity) == (4095, 512)


@case
def the_last_unit_that_goes_ends_the_session():
    with Iscsi('--allow-add', of_target('a'), 'b=ram:1M') as node, session(node) as host:
        remove(node, 'a')
        said = host.receive()
        assert (said.opcode, said.header[36]) == (iscsi.ASYNC, 3), said.opcode
        assert host.is_closed()
        until(lambda: node.status()['connections'] == 0)


@case
def a_write_under_way_is_answered_when_its_unit_goes():
    with Iscsi('--allow-add', of_target('a'), of_target('b')) as node, session(node) as host:
        host.ready(0).ready(1)
        tag = host.write_begin(0, 1)
        asked = host.receive()
        assert asked.opcode == iscsi.R2T, asked.opcode
        remove(node, 'a')
        until(lambda: len(node.status()['volumes']) == 1)
        host.data_out(tag, asked.ttt, 0, bytes(512))
        said = host.receive()
        assert (said.opcode, said.itt) == (iscsi.RESPONSE, tag), said.opcode
        until(lambda: node.status()['connections'] == 1)
        assert node.status()['pool_taken'] == 0


@case
def a_reservation_binds_one_unit():
    register = bytes(8) + (0x11).to_bytes(8, 'big') + bytes(8)
    reserve = (0x11).to_bytes(8, 'big') + bytes(16)
    with Iscsi(of_target('a'), of_target('b')) as node, session(node) as host, \
            session(node, isid=b'\x80weft1') as other:
        for one in (host, other):
            one.ready(0).ready(1)
        for action, kind, words in ((0, 0, register), (1, 1, reserve)):
            host.command([0x5f, action, kind, 0, 0, 0, 0, 0, 24], 24, WRITE, words)
            assert host.receive().header[3] == 0
        assert write(other, 0, 1) == CONFLICT and write(other, 1, 1) == 0
        assert write(host, 0, 1) == 0


@case
def a_reset_of_one_unit_is_told_by_that_alone():
    with Iscsi(of_target('a'), of_target('b')) as node, session(node) as host:
        host.ready(0).ready(1)
        host.write_begin(0, 1)
        assert host.receive().opcode == iscsi.R2T
        host.command([0x2a, 0, 0, 0, 0, 0, 0, 0, 1], 512, WRITE, lun=1)
        kept = host.receive()
        assert kept.opcode == iscsi.R2T
        assert task(host, RESET_UNIT, 0) == 0
        assert ready(host, 0) == (ATTENTION, 0x29, 3)
        host.data_out(host.itt - 1, kept.ttt, 0, bytes(512))
        assert host.receive().header[3] == 0
        assert ready(host, 1) is None


@case
def a_unit_is_shown_to_whom_it_is_for():
    with Iscsi(of_target('a'), of_target('b', f'&allow={OTHER}')) as node:
        with session(node) as host:
            assert report(host) == [0] and ready(host, 1) == NO_UNIT
        with Iscsi(of_target('b', f'&allow={OTHER}')) as closed, \
                Initiator(closed.address) as host:
            assert host.login(TARGET) == 0x0202


@case
def a_number_is_one_volumes():
    taken = 'another volume has this NSID of the NQN, or LUN of the target'
    with folder() as place:
        file = place / 'node.ini'
        file.write_text(f'[volume a]\nuri = ram:1M\ntarget = {TARGET}\nlun = 4\n')
        with Iscsi('--allow-add', f'--config={file}') as node:
            assert node.url.endswith(f'/{TARGET}/4'), node.url
            expect_error(weft('rescan', f'--add={of_target("b", "&lun=4")}', node.process.pid), 1,
                         taken)


@case
def the_driver_reaches_each_unit():
    """A unit of one node is another node's device."""
    need('qemu-io')
    with Iscsi(of_target('a'), of_target('b', '&lun=9')) as node, Iscsi(node.urls[1]) as front:
        run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', front.uri())
        with session(node) as host:
            host.ready(0).ready(9)
            assert set(host.read(0, 8, 9)) == {5} and set(host.read(0, 8)) == {0}


if __name__ == '__main__':
    main()
