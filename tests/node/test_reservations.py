#!/usr/bin/env python3
"""Reservations of a volume as its clients meet them: who asks for one over one protocol is obeyed
over all of them."""

import contextlib
import re
import struct

import nbd_client as nbd
import nvme_host as nvme
from iscsi_host import WRITE, Initiator
from nvme_host import session, sqe, transport
from serving import Iscsi, Node, Nvme, case, folder, main, signal, until, weft

GOOD, CONFLICT = 0, 0x18
REGISTER, RESERVE, RELEASE, CLEAR, PREEMPT = range(5)
REGISTER_ANY = 6
WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS = 1, 3
BLOCK = bytes(512)


def reserve_out(host, action, kind=0, key=0, new_key=0, flags=0):
    """The status of a PERSISTENT RESERVE OUT."""
    data = struct.pack('>QQIBBH', key, new_key, 0, flags, 0, 0)
    return host.ask([0x5f, action, kind, 0, 0, *len(data).to_bytes(4, 'big')], len(data), WRITE,
                    data=data).status


def initiator(node, isid=b'\x80weft0'):
    host = Initiator(node.address)
    assert isinstance(host.login(node.target, isid=isid), dict)
    return host.ready()


def nbd_write(client):
    client.request(nbd.WRITE, 0, 512, data=BLOCK)
    return client.answer()[0]


def nbd_read(client):
    client.request(nbd.READ, 0, 512)
    return client.answer(512)[0]


@case
def an_nbd_client_obeys_what_an_initiator_has_reserved():
    with Iscsi('disk=ram:1M') as node, initiator(node) as host, nbd.Client(node) as client:
        client.go(b'disk')
        assert reserve_out(host, REGISTER, new_key=7) == GOOD
        assert nbd_write(client) == 0
        assert reserve_out(host, RESERVE, WRITE_EXCLUSIVE, 7) == GOOD
        assert (nbd_write(client), nbd_read(client)) == (nbd.EPERM, 0)
        assert reserve_out(host, RELEASE, WRITE_EXCLUSIVE, 7) == GOOD
        assert reserve_out(host, RESERVE, EXCLUSIVE_ACCESS, 7) == GOOD
        assert (nbd_write(client), nbd_read(client)) == (nbd.EPERM, nbd.EPERM)
        refused = node.status()['volumes'][0]['completions']['reserved']
        assert refused == 3, refused
        assert reserve_out(host, CLEAR, key=7) == GOOD
        assert (nbd_write(client), nbd_read(client)) == (0, 0)


@case
def a_reservation_of_six_octets_ends_with_its_session():
    with Iscsi('disk=ram:1M') as node, nbd.Client(node) as client:
        client.go(b'disk')
        with initiator(node) as host:
            assert host.ask([0x16]).status == GOOD
            assert nbd_read(client) == nbd.EPERM
            assert host.ask([0x17]).status == GOOD
            assert nbd_read(client) == 0
            assert host.ask([0x16]).status == GOOD
        with initiator(node) as host:  # that it is let in says that the former session has ended
            assert host.ask([0x16]).status == GOOD


# ---- NVMe

OK, FIELD, INTERNAL, SEQUENCE, FORMAT, RESERVED = 0, 2, 6, 0xc, 0x18, 0x83
REG, REPORT, ACQUIRE, RELEASE_ = 0x0d, 0x0e, 0x11, 0x15
IEKEY, PERSIST = 1 << 3, 3 << 30
ONE, TWO = b'1' * 16, b'2' * 16


class Host:
    """A host with one I/O queue."""

    def __init__(self, stack, node, hostid, **options):
        self.admin, self.queue = stack.enter_context(
            session(node.address, node.nqn, host=f'nqn.2026-11.test:{hostid[:1].decode()}',
                    hostid=hostid, **options))

    def change(self, opcode, cdw10, *keys):
        data = b''.join(struct.pack('<Q', key) for key in keys)
        return self.queue.ask(sqe(opcode, 9, 1, transport(len(data)), struct.pack('<I', cdw10)),
                              pull=data).status

    def register(self, key, cdw10=0, old=0):
        return self.change(REG, cdw10, old, key)

    def acquire(self, kind, key, cdw10=0, other=0):
        return self.change(ACQUIRE, cdw10 | kind << 8, key, other)

    def release(self, kind, key, cdw10=0):
        return self.change(RELEASE_, cdw10 | kind << 8, key)

    def report(self, length=4096, extended=1):
        said = self.queue.ask(sqe(REPORT, 9, 1, transport(length),
                                  struct.pack('<II', length // 4 - 1, extended)))
        return said.data if said.status == OK else said.status

    def registrants(self):
        """(generation, type, [(is holder, key, host)])"""
        page = self.report()
        generation, kind, count = struct.unpack_from('<IBH', page)
        rows = [struct.unpack_from('<HB5xQ16s', page, 64 + 64 * i) for i in range(count)]
        return generation, kind, [(holder, key, host) for _, holder, key, host in rows]

    def write(self):
        return self.queue.write(0, BLOCK).status

    def read(self):
        return self.queue.read(0, 1).status

    def listen(self):
        self.admin.capsule(sqe(nvme.AER, 77))

    def heard(self):
        """What was waited for, and the notice that it tells of."""
        event = self.admin.answer()
        assert (event.cid, event.result) == (77, 0x00800006), (event.cid, hex(event.result))
        return self.notice()

    def notice(self):
        count, kind, left, nsid = struct.unpack_from('<QBBxxI', self.admin.log(0x80, 64).data)
        return kind, left, nsid


@contextlib.contextmanager
def hosts(*words):
    with Nvme(*words or ['disk=ram:1M']) as node, contextlib.ExitStack() as stack:
        yield node, Host(stack, node, ONE), Host(stack, node, TWO)


@case
def two_hosts_register_acquire_preempt_and_release():
    with hosts() as (node, one, two):
        assert one.registrants() == (0, 0, [])
        assert (one.register(0x11), two.register(0x22)) == (OK, OK)
        assert one.acquire(1, 0x11) == OK
        assert (one.write(), two.write(), two.read()) == (OK, RESERVED, OK)
        assert two.registrants() == (2, 1, [(1, 0x11, ONE), (0, 0x22, TWO)])
        assert two.acquire(2, 0x22) == RESERVED
        assert two.acquire(4, 0x22, 1, 0x11) == OK  # preempt: exclusive access, registrants only
        assert one.registrants() == (3, 4, [(1, 0x22, TWO)])
        assert (one.write(), one.read(), two.write()) == (RESERVED, RESERVED, OK)
        assert one.register(0x33) == OK
        assert (one.write(), one.read()) == (OK, OK)
        assert two.release(3, 0x22) == FIELD
        assert two.release(4, 0x22) == OK
        assert one.registrants()[1] == 0
        assert one.release(0, 0x33, 1) == OK  # clear
        assert one.registrants()[1:] == (0, [])


@case
def a_host_that_is_gone_is_reported_by_its_identifier():
    with Nvme('disk=ram:1M') as node, contextlib.ExitStack() as stack:
        two = Host(stack, node, TWO)
        with contextlib.ExitStack() as leaving:
            one = Host(leaving, node, ONE)
            assert (one.register(0x11), two.register(0x22)) == (OK, OK)
            assert one.acquire(1, 0x11) == OK
        until(lambda: node.status()['nvme']['sessions'] == 1)
        assert two.registrants() == (2, 1, [(1, 0x11, ONE), (0, 0x22, TWO)])


def flushes(node):
    return node.status()['volumes'][0]['operations'].get('flush', 0)


@case
def who_may_only_read_may_read_what_is_stable():
    with folder() as place:
        (place / 'image').write_bytes(BLOCK * 64)
        with hosts(f'disk={place}/image') as (node, one, two):
            assert (one.register(1), one.acquire(1, 1)) == (OK, OK)
            assert two.queue.ask(sqe(nvme.FLUSH, 9, 1)).status == RESERVED
            before = flushes(node)
            said = two.queue.ask(nvme.rw(nvme.READ, 0, 1, transport(512), nvme.FUA))
            assert (said.status, said.data) == (OK, BLOCK)
            assert flushes(node) == before + 1


@case
def what_a_stranger_has_reserved_of_a_device_is_told_as_that():
    with Nvme('--iscsi=127.0.0.1:0', 'disk=ram:1M') as node, contextlib.ExitStack() as stack:
        one = Host(stack, node, ONE)
        assert (one.register(1), one.acquire(1, 1)) == (OK, OK)
        uris = node.status()['volumes'][0]['uris']
        for scheme in ('nvme+tcp:', 'iscsi:'):
            uri = next(uri for uri in uris if uri.startswith(scheme))
            with Node(f'far={uri}') as far, nbd.Client(far) as client:
                client.go(b'far')
                assert (nbd_write(client), nbd_read(client)) == (nbd.EPERM, 0), scheme


@case
def every_type_reads_as_it_was_asked_for():
    with hosts() as (node, one, two):
        assert one.register(1) == OK
        for kind in range(1, 7):
            assert one.acquire(kind, 1) == OK
            assert one.registrants()[1] == kind
            assert (two.read(), two.write()) == (OK if kind in (1, 3, 5) else RESERVED, RESERVED)
            assert one.release(kind, 1) == OK


@case
def keys_are_replaced_ignored_and_given_up_as_they_should_be():
    with hosts() as (node, one, two):
        assert one.register(0) == FIELD
        assert one.register(5, 2) == RESERVED        # replace, and it is not registered
        assert one.register(0, 1) == RESERVED        # unregister, likewise
        assert one.register(5) == OK
        assert one.register(5) == OK
        assert one.register(6) == RESERVED
        assert one.register(6, 2, old=7) == RESERVED
        assert one.register(6, 2, old=5) == OK
        assert one.register(7, 2 | IEKEY) == OK
        assert one.register(8, IEKEY) == OK
        assert one.registrants()[2] == [(0, 8, ONE)]
        assert one.register(0, 1, old=7) == RESERVED
        assert one.register(0, 1, old=8) == OK
        assert one.registrants()[2] == []


@case
def what_a_host_may_not_ask_is_refused():
    with hosts() as (node, one, two):
        assert one.register(1, 3) == FIELD           # no such action
        assert one.register(1, PERSIST) == FIELD     # the node has no place for it
        assert one.acquire(1, 1) == RESERVED         # not registered
        assert one.register(1) == OK
        assert one.acquire(0, 1) == FIELD
        assert one.acquire(7, 1) == FIELD
        assert one.acquire(1, 1, 3) == FIELD
        assert one.acquire(1, 1, IEKEY) == FIELD
        assert one.release(1, 1, 2) == FIELD
        assert one.acquire(1, 1, 1, 0) == FIELD      # preempts nobody
        assert one.report(extended=0) == FORMAT
        assert one.report(4100) == FIELD
        assert one.report(64)[:7] == one.report()[:7]
        with session(node.address, node.nqn, host='nqn.2026-11.test:0', hostid=bytes(16)) as none:
            data = struct.pack('<QQ', 0, 1)
            assert none[1].ask(sqe(REG, 9, 1, transport(16)), pull=data).status == SEQUENCE


@case
def hosts_are_told_what_became_of_their_registrations():
    with hosts() as (node, one, two):
        assert (one.register(1), two.register(2)) == (OK, OK)
        two.listen()
        assert one.acquire(3, 1) == OK
        assert one.release(3, 1) == OK
        assert two.heard() == (2, 0, 1)              # released
        assert two.notice() == (0, 0, 0)
        two.listen()
        assert one.acquire(1, 1, 1, 2) == OK         # preempts the registration
        assert two.heard() == (1, 0, 1)
        assert two.register(2) == OK
        assert one.release(0, 1, 1) == OK            # clear
        two.listen()
        assert two.heard() == (3, 0, 1)
        assert (one.register(1), two.register(2)) == (OK, OK)
        assert two.admin.feature(0x82, 1 << 2, 1).status == OK
        assert one.acquire(3, 1) == OK
        assert one.release(3, 1) == OK
        assert two.notice() == (0, 0, 0)


@case
def a_host_that_has_reset_its_controller_is_told_too():
    with hosts() as (node, one, two):
        assert (one.register(1), two.register(2)) == (OK, OK)
        cntlid, = struct.unpack_from('<H', two.admin.identify(1).data, 78)
        assert (two.admin.set(nvme.CC, 0).status, two.queue.is_ended()) == (OK, True)
        assert two.admin.set(nvme.CC, nvme.ENABLE).status == OK
        with nvme.Queue(node.address) as queue:
            said = queue.connect(node.nqn, 'nqn.2026-11.test:2', 1, 128, cntlid, hostid=TWO)
            assert said.status == OK, hex(said.status)
            assert two.admin.feature(0x82, 0, 1).status == OK  # none is masked
            assert (one.acquire(3, 1), one.release(3, 1)) == (OK, OK)
            two.listen()
            two.admin.capsule(sqe(nvme.KEEP_ALIVE, 78))  # is answered behind what is told
            assert (two.admin.answer().cid, two.admin.answer().cid) == (77, 78)
            assert two.notice() == (2, 0, 1)


@case
def initiators_hosts_and_nbd_clients_obey_each_other():
    with Nvme('--iscsi=127.0.0.1:0', 'disk=ram:1M') as node, contextlib.ExitStack() as stack:
        url = next(uri for uri in node.status()['volumes'][0]['uris'] if uri.startswith('iscsi:'))
        port, target = re.match(r'iscsi://127\.0\.0\.1:(\d+)/([^/]+)/0', url).groups()
        host = Host(stack, node, ONE)
        scsi = stack.enter_context(Initiator(('127.0.0.1', int(port))))
        assert isinstance(scsi.login(target), dict)
        scsi.ready()
        client = stack.enter_context(nbd.Client(node)).go(b'disk')
        assert host.register(0x77) == OK and host.acquire(2, 0x77) == OK
        scsi.command([0x2a, 0, 0, 0, 0, 0, 0, 0, 1], 512, WRITE, data=BLOCK)
        assert scsi.receive().status == CONFLICT
        assert (nbd_read(client), nbd_write(client)) == (nbd.EPERM, nbd.EPERM)
        keys = scsi.ask([0x5e, 0, 0, 0, 0, 0, 0, 0, 64], 64, 0x40).data
        assert keys == struct.pack('>IIQ', 1, 8, 0x77), keys
        assert reserve_out(scsi, REGISTER, new_key=0x99) == GOOD
        assert reserve_out(scsi, PREEMPT, EXCLUSIVE_ACCESS, 0x99, 0x77) == GOOD
        assert (host.read(), host.write()) == (RESERVED, RESERVED)
        assert host.registrants() == (3, 2, [(1, 0x99, bytes(16))])
        assert (nbd_read(client), nbd_write(client)) == (nbd.EPERM, nbd.EPERM)


# ---- what outlives the node


@contextlib.contextmanager
def configured(more=''):
    """The words of a node with a configuration file, and that file."""
    with folder() as place:
        disk = place / 'disk.img'
        disk.write_bytes(bytes(1 << 20))
        config = place / 'node.ini'
        config.write_text(f'[node]\n{more}\n[volume disk]\nuri = file:{disk}\n')
        yield [f'--config={config}'], config


@case
def what_was_to_persist_is_there_after_the_node_was_killed():
    with configured() as (words, config):
        with hosts(*words) as (node, one, two):
            assert one.register(0x11, PERSIST) == OK
            assert two.register(0x22) == OK
            assert one.acquire(1, 0x11) == OK
            before = one.registrants()
            assert one.report()[9] == 1
            node.process.send_signal(signal.SIGKILL)
            node.process.wait()
        with hosts(*words) as (node, one, two), nbd.Client(node) as client:
            client.go(b'disk')
            assert one.registrants() == before == (2, 1, [(1, 0x11, ONE), (0, 0x22, TWO)])
            assert (one.write(), two.write(), nbd_write(client)) == (OK, RESERVED, nbd.EPERM)
            assert two.register(0x22, 2 << 30) == OK  # from now on it ends with the node
        with hosts(*words) as (node, one, two):
            assert (one.registrants()[1:], two.write()) == ((0, []), OK)


@case
def an_initiators_reservation_persists_if_it_asks_for_that():
    for flag, outcome in (1, CONFLICT), (0, GOOD):
        with configured() as (words, config):
            with Iscsi(*words) as node, initiator(node) as host:
                assert host.ask([0x5e, 2, 0, 0, 0, 0, 0, 0, 8], 8, 0x40).data[2] & 1
                assert reserve_out(host, REGISTER, new_key=7, flags=flag) == GOOD
                assert reserve_out(host, RESERVE, EXCLUSIVE_ACCESS, 7) == GOOD
            with Iscsi(*words) as node, initiator(node, b'\x80weft1') as host:
                assert host.ask([0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, 0x40).status == outcome


@case
def an_initiator_that_registers_nothing_leaves_what_persists_as_it_is():
    with configured() as (words, config), Iscsi(*words) as node, \
            initiator(node) as host, initiator(node, b'\x80weft1') as other:
        assert reserve_out(host, REGISTER, new_key=7, flags=1) == GOOD
        for action in REGISTER, REGISTER_ANY:
            assert reserve_out(other, action) == GOOD  # no key, and none before
            assert host.ask([0x5e, 2, 0, 0, 0, 0, 0, 0, 8], 8, 0x40).data[3] & 1


@case
def what_cannot_be_stored_is_not_answered_as_done():
    with configured('reservations = /no/such/folder/file') as (words, config):
        with hosts(*words) as (node, one, two):
            assert one.register(0x11, PERSIST) == INTERNAL
            assert one.register(0x11) == INTERNAL
            assert one.register(0x11, 2 << 30) == INTERNAL
            assert one.register(0x11) == OK


@case
def a_node_does_not_start_on_half_of_its_reservations():
    with configured() as (words, config):
        file = config.with_name('node.ini.reservations')
        with hosts(*words) as (node, one, two):
            assert one.register(0x11, PERSIST) == OK
        text = file.read_text()
        file.write_text(text[:-4])
        said = weft('serve', '--nbd=unix:/dev/null', *words)
        assert said.returncode == 1, said
        assert f'{file}' in said.stderr and 'is not as a node writes it' in said.stderr, said.stderr


@case
def the_effects_log_tells_which_commands_there_are():
    with hosts() as (node, one, two):
        page = one.admin.log(5, 4096).data
        words = struct.unpack('<1024I', page)
        admin = [code for code in range(256) if words[code]]
        io = {code: words[256 + code] & 0xff for code in range(256) if words[256 + code]}
        assert admin == [2, 6, 8, 9, 10, 12, 24, 127], admin
        reserves = {REG: 1, REPORT: 1, ACQUIRE: 1, RELEASE_: 1}
        assert io == {0: 1, 1: 3, 2: 1, 5: 1, 8: 3, 9: 3, 12: 1, 25: 3, **reserves}, io
        assert not any(words[512:])


main()
