#!/usr/bin/env python3
"""Several volumes as the namespaces of one NVMe subsystem: what hosts see of each, what becomes of
commands to it, and that volumes come and go while hosts are there."""

import contextlib
import json
import re
import struct

import nvme_host as nvme
from nvme_host import Queue, rw, session, sqe, transport
from serving import Node, Nvme, case, expect, expect_error, folder, main, until, weft

NQN = 'nqn.2026-11.test:two'
OK, FIELD, NO_NAMESPACE, NOT_READY, RESERVED, MISCOMPARE = 0, 2, 0xb, 0x82, 0x83, 0x285
CHANGED = 0x00040002  # a notice, of attributes of namespaces: log page 4
ONE, TWO = b'1' * 16, b'2' * 16


def member(name, size='1M', more=''):
    return f'{name}=ram:{size}?nqn={NQN}{more}'


def two(*words):
    return Nvme('--allow-add', *words, member('a'), member('b', '2M'))


def write(queue, nsid, block, data):
    entry = rw(nvme.WRITE, block, len(data) // 512, transport(len(data)), nsid=nsid)
    return queue.ask(entry, pull=data).status


def read(queue, nsid, block, count=1):
    said = queue.ask(rw(nvme.READ, block, count, transport(512 * count), nsid=nsid))
    return said.data if said.status == OK else said.status


def flush(queue, nsid):
    return queue.ask(sqe(nvme.FLUSH, 3, nsid)).status


def active(admin, behind=0):
    page = struct.unpack('<1024I', admin.identify(2, behind).data)
    return list(page[:page.index(0)])


def changed(admin, keep=0):
    log = struct.unpack('<1024I', admin.log(4, 4096, keep=keep).data)
    return list(log[:log.index(0)])


def size(admin, nsid):
    return struct.unpack_from('<Q', admin.identify(0, nsid).data)[0] * 512


def volumes(node):
    return {volume['name']: volume for volume in node.status()['volumes']}


def listen(admin):
    assert admin.feature(0x0b, 1 << 8).status == OK
    admin.capsule(sqe(nvme.AER, 77))


def heard(admin):
    event = admin.answer()
    assert event.cid == 77, event.cid
    return event.result


def add(node, text):
    expect(weft('rescan', f'--add={text}', node.process.pid), 0, None)


def remove(node, name):
    expect(weft('rescan', f'--remove={name}', node.process.pid), 0, f'{name}: removed\n')


# ---- what there is


@case
def each_volume_is_a_namespace():
    with two() as node, session(node.address, NQN) as (admin, queue):
        assert (active(admin), active(admin, 1), active(admin, 2)) == ([1, 2], [2], [])
        assert (size(admin, 1), size(admin, 2)) == (1 << 20, 2 << 20)
        for nsid, name in ((1, 'a'), (2, 'b')):
            described = admin.identify(3, nsid).data
            assert described[4:20].hex() == volumes(node)[name]['uuid'].replace('-', '')
            assert described[24:40] == admin.identify(0, nsid).data[104:120]
        assert write(queue, 1, 5, b'a' * 512) == OK and write(queue, 2, 5, b'b' * 512) == OK
        assert (read(queue, 1, 5), read(queue, 2, 5)) == (b'a' * 512, b'b' * 512)
        assert write(queue, 2, 4095, b'z' * 512) == OK  # beyond the end of the other


@case
def what_is_no_namespace_is_refused():
    with two() as node, session(node.address, NQN) as (admin, queue):
        assert size(admin, 3) == size(admin, 256) == 0  # numbers that none has now
        for nsid in (0, 257, 0xfffffffe, 0xffffffff):
            assert admin.identify(0, nsid).status == NO_NAMESPACE, nsid
        for nsid in (0, 3, 256, 257, 0xfffffffe, 0xffffffff):
            assert admin.identify(3, nsid).status == NO_NAMESPACE, nsid
            assert read(queue, nsid, 0) == NO_NAMESPACE, nsid
            assert write(queue, nsid, 0, bytes(512)) == NO_NAMESPACE, nsid
            assert nsid == 0xffffffff or flush(queue, nsid) == NO_NAMESPACE, nsid
            for feature in (0x82, 0x83):
                get = sqe(nvme.GET_FEATURES, 6, nsid, tail=struct.pack('<I', feature))
                assert admin.ask(get).status == NO_NAMESPACE, (nsid, feature)
        assert admin.feature(0x82, 0, 3).status == NO_NAMESPACE


@case
def a_subsystem_is_told_of_once():
    with two('--nvme-rdma=127.0.0.1:0') as node:
        with session(node.address, nvme.DISCOVERY, 0) as (admin,):
            log = admin.log(0x70, 4096).data
            assert struct.unpack_from('<Q', log, 8) == (2,)  # by each transport
            told = {log[at + 256:at + 512].rstrip(b'\0').decode() for at in (1024, 2048)}
            assert told == {NQN}, told
        with session(node.address, NQN, 0) as (admin,):
            before = admin.identify(1).data
        remove(node, 'a')
        with session(node.address, NQN, 0) as (admin,):  # the same one, whatever is in it
            after = admin.identify(1).data
        assert before[4:64] == after[4:64] and before[24:64].rstrip() == b'weft two', after[:64]
        said = weft('status', node.process.pid).stdout
        assert f'\n      namespace: 2 of {NQN}\n' in said, said
        found = volumes(node)['b']
        assert (found['nqn'], found['nsid']) == (NQN, 2), found
        assert any(re.fullmatch(rf'nvme\+tcp://127\.0\.0\.1:\d+/{NQN}/2', uri)
                   for uri in found['uris']), found


@case
def numbers_are_as_wished_or_the_first_that_are_free():
    with Nvme('--allow-add', member('a', more='&nsid=2'), member('b'), member('c'),
              'd=ram:1M?nsid=7') as node:
        found = {name: each['nsid'] for name, each in volumes(node).items()}
        assert found == {'a': 2, 'b': 1, 'c': 3, 'd': 7}, found
        remove(node, 'b')
        add(node, member('e'))
        assert volumes(node)['e']['nsid'] == 1
        expect_error(weft('rescan', f'--add={member("f", more="&nsid=3")}', node.process.pid), 1,
                     'another volume has this NSID of the NQN, or LUN of the target')
        with session(node.address, volumes(node)['d']['nqn']) as (admin, queue):
            assert active(admin) == [7] and write(queue, 7, 0, bytes(512)) == OK


@case
def a_folder_is_one_subsystem():
    with folder() as place:
        for name in ('a', 'b'):
            (place / name).write_bytes(name.encode() * 4096)
        with Nvme(f'{place}/?nqn={NQN}') as node, session(node.address, NQN) as (admin, queue):
            assert [read(queue, nsid, 0)[:1] for nsid in active(admin)] == [b'a', b'b']
            listen(admin)
            (place / 'c').write_bytes(b'c' * 4096)
            assert heard(admin) == CHANGED and changed(admin) == [3]
            assert read(queue, 3, 7)[:1] == b'c'


@case
def a_host_sees_what_it_may_use():
    with folder() as place:
        config = place / 'node.ini'
        text = (f'[volume a]\nuri = ram:1M\nnqn = {NQN}\n'
                f'[volume b]\nuri = ram:1M\nnqn = {NQN}\nallow = nqn.2026-11.test:other\n')
        config.write_text(text)
        with Nvme(f'--config={config}') as node, session(node.address, NQN) as (admin, queue), \
                session(node.address, NQN, host='nqn.2026-11.test:other') as (other, _):
            assert (active(admin), active(other)) == ([1], [1, 2])
            assert read(queue, 2, 0) == NO_NAMESPACE
            numbers = struct.unpack_from('<3H', admin.identify(0x12, 1).data)
            assert numbers == (2, 1, 2), numbers
            assert struct.unpack_from('<2H', other.identify(0x12, 2).data) == (1, 2)
            listen(admin)
            config.write_text(text + 'allow = nqn.2026-11.test:host\n')
            expect(weft('rescan', node.process.pid), 0, 'b: other clients\n')
            assert heard(admin) == CHANGED and changed(admin) == [2]
            assert read(queue, 2, 0) == bytes(512)


# ---- what comes and goes


@case
def what_comes_is_told_of_and_used():
    with two() as node, session(node.address, NQN, 2) as (admin, one, other):
        listen(admin)
        add(node, member('c', '4M'))
        assert heard(admin) == CHANGED
        assert changed(admin, keep=1) == [3] and changed(admin) == [3] and changed(admin) == []
        assert active(admin) == [1, 2, 3] and size(admin, 3) == 4 << 20
        assert write(one, 3, 0, b'c' * 512) == OK and read(other, 3, 0) == b'c' * 512


@case
def what_goes_is_told_of_and_the_others_stay():
    with two() as node, session(node.address, NQN, 2) as (admin, one, other):
        assert write(other, 2, 0, b'b' * 512) == OK and read(one, 1, 0) == bytes(512)
        listen(admin)
        remove(node, 'a')
        assert heard(admin) == CHANGED and changed(admin) == [1]
        assert active(admin) == [2] and size(admin, 1) == 0
        for queue in (one, other):
            assert read(queue, 1, 0) == NO_NAMESPACE and read(queue, 2, 0) == b'b' * 512
        listen(admin)
        add(node, member('again'))
        assert heard(admin) == CHANGED and changed(admin) == [1]
        for queue in (one, other):
            assert write(queue, 1, 0, b'1' * 512) == OK and read(queue, 2, 0) == b'b' * 512


@case
def a_session_ends_with_the_last_of_its_namespaces():
    with Nvme('--allow-add', member('a'), member('b'), 'c=ram:1M') as node, \
            session(node.address, NQN) as (admin, queue):
        remove(node, 'a')
        assert read(queue, 2, 0) == bytes(512)
        remove(node, 'b')
        assert admin.is_ended() and queue.is_ended()
        with Queue(node.address) as late:
            assert late.connect(NQN).status == 0x182
        until(lambda: node.status()['connections'] == 0)


@case
def what_is_under_way_at_a_volume_that_goes_ends():
    slow = f'slow=delay+ram:1M?delay.write=2s&nqn={NQN}'
    with Nvme('--allow-add', member('a'), slow) as node, \
            session(node.address, NQN) as (_, queue):
        queue.capsule(rw(nvme.WRITE, 0, 1, nvme.in_capsule(512), nsid=2, cid=5), bytes(512))
        until(lambda: volumes(node)['slow']['connections'] == 1 and node.status()['pool_taken'])
        weft('rescan', '--remove=slow', node.process.pid)
        said = queue.answer()
        assert said.cid == 5 and said.status in (OK, NO_NAMESPACE), vars(said)
        assert read(queue, 2, 0) == NO_NAMESPACE
        assert write(queue, 1, 0, bytes(512)) == OK


@case
def queues_are_connections_of_what_they_use():
    with two() as node, session(node.address, NQN, 3) as (_, first, second, third):
        def counts():
            found = volumes(node)
            return found['a']['connections'], found['b']['connections']
        until(lambda: counts() == (3, 1))  # the first is of all, so that its host hears of each
        assert read(third, 2, 0) == read(third, 2, 1) == read(first, 2, 0) == bytes(512)
        assert counts() == (3, 2)
        assert read(second, 2, 0) == bytes(512)
        assert counts() == (3, 3)
        remove(node, 'b')
        until(lambda: node.status()['connections'] == 3)


# ---- commands of several


@case
def a_flush_may_be_of_all():
    with folder() as place:
        words = []
        for name in ('a', 'b', 'c'):
            (place / name).write_bytes(bytes(8192))
            words.append(f'{name}={place}/{name}?nqn={NQN}')
        words.insert(1, member('ram'))  # whose writes are stable as they are
        with Nvme(*words) as node, session(node.address, NQN) as (admin, queue):
            assert admin.identify(1).data[525] == 7

            def flushes():
                return [each.get('operations', {}).get('flush', 0)
                        for each in node.status()['volumes']]
            assert flush(queue, 0xffffffff) == OK and flushes() == [1, 0, 1, 1]
            assert flush(queue, 3) == OK and flushes() == [1, 0, 2, 1]
            assert flush(queue, 2) == OK and flushes() == [1, 0, 2, 1]


@case
def two_of_one_namespace_are_done_as_one():
    def fused(queue, nsids, expected, new):
        where = nvme.in_capsule(512)
        compare = bytearray(rw(5, 0, 1, where, cid=1, nsid=nsids[0]))
        change = bytearray(rw(nvme.WRITE, 0, 1, where, cid=2, nsid=nsids[1]))
        compare[1] |= 1
        change[1] |= 2
        queue.capsule(bytes(compare), expected)
        queue.capsule(bytes(change), new)
        return [each.status for each in sorted((queue.answer(), queue.answer()),
                                               key=lambda each: each.cid)]
    with two() as node, session(node.address, NQN, 2) as (_, _, queue):
        assert fused(queue, (2, 2), bytes(512), b'x' * 512) == [OK, OK]  # not bound before
        assert (read(queue, 2, 0), read(queue, 1, 0)) == (b'x' * 512, bytes(512))
        assert fused(queue, (2, 2), bytes(512), b'y' * 512)[0] == MISCOMPARE
        assert fused(queue, (1, 2), bytes(512), b'y' * 512)[1] == FIELD
        assert fused(queue, (3, 3), bytes(512), b'y' * 512)[0] == NO_NAMESPACE
        assert read(queue, 2, 0) == b'x' * 512


def change(queue, nsid, opcode, cdw10, *keys):
    data = b''.join(struct.pack('<Q', key) for key in keys)
    return queue.ask(sqe(opcode, 9, nsid, transport(len(data)), struct.pack('<I', cdw10)),
                     pull=data).status


@contextlib.contextmanager
def hosts(node):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(session(node.address, NQN, host=f'nqn.2026-11.test:{hostid[0]}',
                                           hostid=hostid)) for hostid in (ONE, TWO)]


@case
def a_reservation_is_of_one_namespace():
    register, acquire, release = 0x0d, 0x11, 0x15
    with two() as node, hosts(node) as ((_, one), (admin, other)):
        assert change(one, 2, register, 0, 0, 1) == OK
        assert change(other, 2, register, 0, 0, 2) == OK
        assert change(one, 2, acquire, 1 << 8, 1, 0) == OK
        assert write(other, 2, 0, bytes(512)) == RESERVED and write(other, 1, 0, bytes(512)) == OK
        report = sqe(0x0e, 9, 2, transport(4096), struct.pack('<II', 1023, 1))
        assert struct.unpack_from('<IBH', other.ask(report).data) == (2, 1, 2)
        report = sqe(0x0e, 9, 1, transport(4096), struct.pack('<II', 1023, 1))
        assert struct.unpack_from('<IBH', other.ask(report).data) == (0, 0, 0)

        def notice():
            return struct.unpack_from('<QBBxxI', admin.log(0x80, 64).data)[1:]
        assert admin.feature(0x82, 1 << 2, 1).status == OK  # not of that one
        assert change(one, 2, release, 1 << 8, 1) == OK
        assert change(one, 2, acquire, 3 << 8, 1, 0) == change(one, 2, release, 3 << 8, 1) == OK
        assert notice() == (2, 0, 2)
        assert admin.feature(0x82, 1 << 2, 0xffffffff).status == OK
        for nsid in (1, 2):
            get = sqe(nvme.GET_FEATURES, 6, nsid, tail=struct.pack('<I', 0x82))
            assert admin.ask(get).result == 1 << 2
        assert change(one, 2, acquire, 3 << 8, 1, 0) == change(one, 2, release, 3 << 8, 1) == OK
        assert notice() == (0, 0, 0)


@case
def a_host_that_is_back_hears_of_each_namespace():
    register, acquire = 0x0d, 0x11
    with two() as node, hosts(node) as ((_, one), _):
        with session(node.address, NQN, host='nqn.2026-11.test:3', hostid=b'3' * 16) as (_, gone):
            assert change(gone, 2, register, 0, 0, 3) == OK
        assert change(one, 2, register, 0, 0, 1) == OK
        with session(node.address, NQN, host='nqn.2026-11.test:3',
                     hostid=b'3' * 16) as (admin, queue):
            until(lambda: volumes(node)['b']['connections'] == 3)  # which has not been asked for
            assert change(one, 2, acquire, 1 | 1 << 8, 1, 3) == OK
            assert struct.unpack_from('<QBBxxI', admin.log(0x80, 64).data)[1:] == (1, 0, 2)
            assert read(queue, 1, 0) == bytes(512)


# ---- weft's own clients, over RDMA


@case
def weft_names_a_namespace_by_its_number():
    with folder() as place, Node('--allow-add', '--nvme-rdma=127.0.0.1:0', member('a'),
                                 member('b', '2M')) as node:
        uris = [next(uri for uri in each['uris'] if uri.startswith('nvme+rdma:'))
                for each in node.status()['volumes']]
        whole = uris[0].rpartition('/')[0]
        assert uris == [f'{whole}/1', f'{whole}/2'], uris
        listed = json.loads(weft('ls', '--json', whole).stdout)
        assert [(each['nsid'], each['size']) for each in listed] == [(1, 1 << 20), (2, 2 << 20)]
        for at, letter in enumerate((b'a', b'b')):
            path = place / str(at)
            path.write_bytes(letter * (1 << 20))
            expect(weft('cp', '--verify', path, uris[at]), 0, None)
        for at, letter in enumerate((b'a', b'b')):
            expect(weft('cp', uris[at], place / 'back'), 0, None)
            assert (place / 'back').read_bytes()[:1 << 20] == letter * (1 << 20)
        expect_error(weft('info', f'{whole}/3'), 1, 'has no namespace 3')
        expect_error(weft('info', whole), 1, 'it has several namespaces')
        remove(node, 'a')
        assert json.loads(weft('info', '--json', whole).stdout)['nsid'] == 2


main()
