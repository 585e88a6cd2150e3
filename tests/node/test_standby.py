#!/usr/bin/env python3
"""Two nodes that serve one file: one at a time, and the other one takes it over when that one is
killed, loses its RTA or is told to; no write that was answered is lost, and none is made behind the
other's back."""

import contextlib
import os
import signal
import struct
import threading

import nvme_host as nvme
from nvme_host import Queue, rw, session, sqe, transport
from serving import Nvme, case, expect, expect_error, folder, main, until, weft

NQN = 'nqn.2026-11.test:two-nodes'
OK, INACCESSIBLE = 0, 0x302
OPTIMIZED, NO_PATH = 1, 3
ANA, ANA_EVENT, ANA_CHANGED = 0x0c, 1 << 11, 0x000c0302
BLOCK = 512


def node_of(disk, *words):
    return Nvme('--allow-add', *words, f'{disk}?nqn={NQN}&standby=on')


@contextlib.contextmanager
def two_nodes():
    """The one that serves the file, and the one that stands by."""
    with folder() as place:
        disk = place / 'disk'
        with open(disk, 'wb') as out:
            out.truncate(1 << 20)
        with node_of(disk) as active, node_of(disk, '--cntlid-min=1000') as standby:
            assert (state(active), state(standby)) == ('ready', 'standby')
            yield active, standby


def state(node):
    return node.status()['volumes'][0]['state']


def access(admin):
    """(the change count, the state) of the one namespace there is."""
    log = admin.log(ANA, 52).data
    count, groups = struct.unpack_from('<QH', log)
    assert groups == 1 and struct.unpack_from('<II', log, 16) == (1, 1), log.hex()
    assert struct.unpack_from('<I', log, 48) == (1,), log.hex()
    return count, log[32]


def listen(admin):
    assert admin.feature(0x0b, ANA_EVENT).status == OK
    admin.capsule(sqe(nvme.AER, 77))


def heard(admin):
    event = admin.answer()
    assert (event.cid, event.result) == (77, ANA_CHANGED), (event.cid, hex(event.result))


def stand_by(node, status=0, said='disk: stands by\n'):
    expect(weft('rescan', '--stand-by=disk', node.process.pid), status, said)


# ---- what hosts see


@case
def both_nodes_tell_of_the_same_namespace_and_of_controllers_of_their_own():
    with two_nodes() as (active, standby):
        with session(active.address, NQN) as (one, _), session(standby.address, NQN) as (two, _):
            assert one.identify(3, 1).data == two.identify(3, 1).data
            assert one.identify(0, 1).data == two.identify(0, 1).data
            pages = one.identify(1).data, two.identify(1).data
            numbers = [struct.unpack_from('<H', page, 78)[0] for page in pages]
            assert numbers == [1, 1000], numbers
            assert pages[0][:78] == pages[1][:78] and pages[0][80:] == pages[1][80:]
            assert access(one) == (0, OPTIMIZED) and access(two) == (0, NO_PATH)


@case
def a_node_that_stands_by_answers_no_io():
    with two_nodes() as (_, standby), session(standby.address, NQN) as (admin, queue):
        entries = (rw(nvme.READ, 0, 1, transport(BLOCK)), sqe(nvme.FLUSH, 3, 1),
                   rw(nvme.ZEROES, 0, 8, bytes(16)))
        for entry in entries:
            said = queue.ask(entry)
            assert (said.status, said.is_final) == (INACCESSIBLE, False), hex(said.status)
        said = queue.write(0, b'x' * BLOCK)
        assert (said.status, said.is_final) == (INACCESSIBLE, False), hex(said.status)
        assert admin.identify(0, 1).data[31] == 0  # nothing is reserved for the other node


# ---- who has the volume


@case
def a_killed_node_is_followed_by_the_other():
    with two_nodes() as (active, standby):
        with session(active.address, NQN) as (_, queue), session(standby.address, NQN) as two:
            admin, other = two
            listen(admin)
            assert queue.write(5, b'a' * BLOCK).status == OK
            active.process.kill()
            heard(admin)
            assert access(admin) == (1, OPTIMIZED)
            assert other.read(5, 1).data == b'a' * BLOCK
            assert other.write(5, b'b' * BLOCK).status == OK
        assert state(standby) == 'ready'


@case
def a_node_that_loses_its_rta_loses_the_volume():
    with two_nodes() as (active, standby), session(active.address, NQN) as (admin, queue):
        listen(admin)
        assert queue.read(0, 1).status == OK
        rta, = active.rtas()
        active.process.send_signal(signal.SIGSTOP)  # or its next RTA may be there first
        os.kill(rta, signal.SIGKILL)
        until(lambda: state(standby) == 'ready')
        active.process.send_signal(signal.SIGCONT)
        heard(admin)
        until(lambda: state(active) == 'standby')
        assert access(admin)[1] == NO_PATH and queue.read(0, 1).status == INACCESSIBLE


@case
def a_volume_is_handed_over_and_back():
    with two_nodes() as (active, standby):
        for one, other in ((active, standby), (standby, active), (active, standby)):
            stand_by(one)
            until(lambda: (state(one), state(other)) == ('standby', 'ready'))


@case
def a_node_takes_back_what_no_other_wants():
    with two_nodes() as (active, standby):
        standby.process.send_signal(signal.SIGTERM)
        assert standby.process.wait(20) == 0
        stand_by(active)
        until(lambda: state(active) == 'ready')


@case
def a_node_that_stands_by_ends_with_all_its_processes():
    for number in signal.SIGTERM, signal.SIGKILL:
        with two_nodes() as (_, standby):
            rta, = standby.rtas()
            standby.process.send_signal(number)
            standby.process.wait(20)
            until(lambda: not is_running(rta))


def is_running(pid):
    try:
        with open(f'/proc/{pid}/stat') as found:
            return found.read().rpartition(')')[2].split()[0] != 'Z'
    except FileNotFoundError:
        return False


@case
def a_volume_that_stands_by_can_be_removed_and_added():
    with two_nodes() as (active, standby):
        uri = f'disk={active_path(active)}?nqn={NQN}&standby=on'
        expect(weft('rescan', '--remove=disk', standby.process.pid), 0, 'disk: removed\n')
        expect(weft('rescan', f'--add={uri}', standby.process.pid), 0,
               'disk: added; another node has it\n')


def active_path(node):
    return node.process.args[-1].partition('?')[0]


@case
def a_file_that_is_there_no_more_is_not_taken_over():
    with two_nodes() as (active, standby), session(standby.address, NQN) as (_, queue):
        disk = active_path(active)
        with open(f'{disk}.new', 'wb') as out:
            out.truncate(1 << 20)
        os.rename(f'{disk}.new', disk)
        active.process.kill()
        until(lambda: 'another file has taken its place' in standby.said())
        assert state(standby) == 'standby' and queue.read(0, 1).status == INACCESSIBLE


@case
def a_configuration_file_says_so_too():
    with folder() as place:
        disk, config = place / 'disk', place / 'node.ini'
        disk.write_bytes(bytes(1 << 20))
        config.write_text(f'[node]\ncntlid-min = 77\n[volume disk]\nuri = {disk}\n'
                          f'nqn = {NQN}\nstandby = yes\n')
        with node_of(disk), Nvme(f'--config={config}') as standby:
            assert state(standby) == 'standby'
            with session(standby.address, NQN, 0) as (admin,):
                assert struct.unpack_from('<H', admin.identify(1).data, 78) == (77,)
        for text, why in (('[node]\ncntlid-min = 0\n', 'it must be 1 to 65264: cntlid-min'),
                          (f'[volume d]\nuri = {disk}\nstandby = on\nrta = shared\n',
                           'an RTA of its own'),
                          (f'[volume d]\nuri = {disk}\nstandby = 1\n', 'neither yes nor no')):
            config.write_text(text)
            expect_error(weft('serve', f'--config={config}', f'--nbd=unix:{place}/nbd'), 1, why)


# ---- under load


class Load(threading.Thread):
    """Counts in a block each, by whichever node has the volume: what was answered is remembered."""

    def __init__(self, nodes, blocks):
        super().__init__(daemon=True)
        self.addresses = [node.address for node in nodes]
        self.blocks = blocks
        self.done = dict.fromkeys(blocks, 0)
        self.ends = False
        self.why = None

    def run(self):
        at = 0
        try:
            while not self.ends:
                self.by_path(self.addresses[at % 2])
                at += 1
        except Exception as why:  # pylint: disable=broad-except
            self.why = why

    def by_path(self, address):
        """As long as this one serves it."""
        try:
            with session(address, NQN, hostid=b'L' * 16) as (_, queue):
                while not self.ends:
                    for block in self.blocks:
                        number = self.done[block] + 1
                        said = queue.write(block, struct.pack('<Q', number) * 64)
                        if said.status != OK:
                            assert said.status == INACCESSIBLE, hex(said.status)
                            return
                        self.done[block] = number
        except (OSError, AssertionError) as why:
            if isinstance(why, AssertionError) and 'ended the connection' not in str(why):
                raise

    def wait_for(self, number):
        before = sum(self.done.values())
        until(lambda: sum(self.done.values()) >= before + number or self.why)

    def end(self, node):
        self.ends = True
        self.join(30)
        assert self.why is None, self.why
        with session(node.address, NQN) as (_, queue):
            for block, number in self.done.items():
                found = struct.unpack('<64Q', queue.read(block, 1).data)
                assert found == (number,) * 64, (block, number, found)


@case
def no_write_is_lost_when_the_volume_goes_to_and_fro():
    with two_nodes() as (active, standby):
        load = Load((active, standby), range(8))
        load.start()
        for turn in range(4):
            load.wait_for(50)
            one, other = (active, standby) if state(active) == 'ready' else (standby, active)
            if turn % 2 == 0:
                stand_by(one)
                until(lambda: state(other) == 'ready')
            else:  # whoever is first has it
                os.kill(one.rtas()[0], signal.SIGKILL)
            until(lambda: 'ready' in (state(active), state(standby)))
        load.wait_for(50)
        active_now = active if state(active) == 'ready' else standby
        load.end(active_now)


@case
def no_write_is_lost_when_a_node_is_killed():
    with two_nodes() as (active, standby):
        load = Load((active, standby), range(8))
        load.start()
        load.wait_for(100)
        active.process.kill()
        load.wait_for(100)
        load.end(standby)


# ---- what operators do wrong


@case
def what_cannot_stand_by_is_refused():
    with folder() as place:
        disk = place / 'disk'
        disk.write_bytes(bytes(1 << 20))
        for words, why in ((('ram:1M?standby=on',), 'ram: it cannot stand by'),
                           (('-r', f'{disk}?standby=on'), 'no need to stand by'),
                           (('--rta=one', f'{disk}?standby=on', 'ram:1M'), 'an RTA of its own'),
                           (('--rta=host', f'{disk}?standby=on'), 'an RTA of its own')):
            expect_error(weft('serve', f'--nbd=unix:{place}/nbd', *words), 1, why)
        for word, why in ((f'{disk}?standby=yes', 'it must be on or off'),
                          ('--cntlid-min=0', 'it must be 1 to 65264'),
                          ('--cntlid-min=65265', 'it must be 1 to 65264')):
            said = weft('serve', word, disk)
            assert said.returncode == 2 and why in said.stderr, said.stderr


@case
def only_a_volume_of_ours_is_handed_over():
    with two_nodes() as (active, standby):
        for node, name, why in ((standby, 'disk', 'it stands by: ask the node that serves it'),
                                (active, 'none', 'there is no such volume')):
            expect_error(weft('rescan', f'--stand-by={name}', node.process.pid), 1, why)
    with Nvme('ram:1M') as node:
        expect_error(weft('rescan', '--stand-by=ram', node.process.pid), 1,
                     'no other node serves it')


@case
def a_node_without_leave_to_stand_by_is_refused_the_file():
    with folder() as place:
        disk = place / 'disk'
        disk.write_bytes(bytes(1 << 20))
        with node_of(disk):
            expect_error(weft('serve', f'--nbd=unix:{place}/nbd', disk), 1,
                         'another process has it open through weft')


if __name__ == '__main__':
    main()
