#!/usr/bin/env python3
"""A volume with several paths: weft's own initiator at two nodes that serve one file in turn, and
at two addresses of one node. Commands go by the path that serves the volume; no write that was
answered is lost when a path ends, and none is sent a second time while its first one may still be
at work."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import threading

from nbd_client import FLUSH, READ, SIMPLE, WRITE, Client
from serving import (LIMIT, Node, case, count, expect, expect_error, folder, free_port, main,
                     need, until, weft)

NQN = 'nqn.2026-11.test:paths'
BLOCK = 4096
DISK_LEN = 4 << 20
SCHEMES = 'tcp', 'rdma'


class Target(Node):
    """One of the two nodes with the file, at a port that it has again when it is started again."""

    def __init__(self, disk, number, ports=None):
        self.disk, self.number = disk, number
        self.ports = ports or {scheme: free_port() for scheme in SCHEMES}
        super().__init__('--allow-add', *(f'--nvme-{scheme}=127.0.0.1:{port}'
                                          for scheme, port in self.ports.items()),
                         f'--cntlid-min={1 + 1000 * number}', f'{disk}?nqn={NQN}&standby=on')

    def again(self):
        return Target(self.disk, self.number, self.ports)

    def at(self, scheme):
        return f'127.0.0.1:{self.ports[scheme]}'

    def state(self):
        return self.status()['volumes'][0]['state']

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def two_nodes():
    """The one that serves the file, and the one that stands by."""
    with folder() as place:
        disk = place / 'disk'
        with open(disk, 'wb') as out:
            out.truncate(DISK_LEN)
        with Target(disk, 0) as active, Target(disk, 1) as standby:
            assert (active.state(), standby.state()) == ('ready', 'standby')
            yield active, standby


def uri(scheme, first, *others, more=''):
    return (f'nvme+{scheme}://{first.at(scheme)}/{NQN}?paths=' +
            ','.join(other.at(scheme) for other in others) + more)


class Load(threading.Thread):
    """Counts in a block each, several writes at a time: what was answered is remembered."""

    def __init__(self, node, blocks=16):
        super().__init__(daemon=True)
        self.client = Client(node).go()
        self.client.socket.settimeout(LIMIT)
        self.done = [0] * blocks
        self.ends = False
        self.why = None

    def run(self):
        try:
            while not self.ends:
                self.turn()
        except Exception as why:  # pylint: disable=broad-except
            self.why = why

    def turn(self):
        for block, number in enumerate(self.done):
            self.client.request(WRITE, block * BLOCK, BLOCK, cookie=block,
                                data=struct.pack('<Q', number + 1) * (BLOCK // 8))
        for _ in self.done:
            magic, error, block = struct.unpack('>IIQ', self.client.take(16))
            assert (magic, error) == (SIMPLE, 0), (hex(magic), error)
            self.done[block] += 1

    def wait_for(self, number):
        before = sum(self.done)
        until(lambda: sum(self.done) >= before + number or self.why)
        assert self.why is None, self.why

    def end(self):
        self.ends = True
        self.join(LIMIT)
        assert self.why is None and not self.is_alive(), self.why
        for block, number in enumerate(self.done):
            self.client.request(READ, block * BLOCK, BLOCK)
            error, data = self.client.answer(BLOCK)
            assert error == 0
            found = set(struct.unpack(f'<{BLOCK // 8}Q', data))
            assert found == {number}, (block, number, found)
        self.client.socket.close()


@contextlib.contextmanager
def load_on(node):
    load = Load(node)
    load.start()
    load.wait_for(32)
    yield load
    load.wait_for(32)
    load.end()


def with_each(function):
    """The case, over TCP and over RDMA."""
    def both():
        for scheme in SCHEMES:
            function(scheme)
    both.__name__ = function.__name__
    return case(both)


# ---- who serves it


@with_each
def commands_go_by_the_path_that_serves_the_volume(scheme):
    with two_nodes() as (active, standby):
        for order in ((active, standby), (standby, active)):
            with Node(uri(scheme, *order)) as node, load_on(node):
                pass


@with_each
def a_volume_that_is_handed_over_is_followed_and_followed_back(scheme):
    with two_nodes() as (active, standby), Node(uri(scheme, active, standby)) as node:
        with load_on(node) as load:
            for one, other in ((active, standby), (standby, active)):
                weft('rescan', '--stand-by=disk', one.process.pid)
                until(lambda other=other: other.state() == 'ready')
                load.wait_for(32)
                until(lambda other=other: f'commands go by {other.at(scheme)} now'
                      in node.said())


@with_each
def a_killed_node_is_followed_by_the_other_and_back(scheme):
    with two_nodes() as (active, standby), contextlib.ExitStack() as later, \
            Node(uri(scheme, active, standby)) as node, load_on(node) as load:
        active.kill()
        load.wait_for(32)
        back = later.enter_context(active.again())
        until(lambda: f'{back.at(scheme)}: connected again' in node.said())
        assert back.state() == 'standby'
        standby.kill()
        load.wait_for(32)
        assert back.state() == 'ready'


@with_each
def a_node_that_loses_its_rta_is_no_error(scheme):
    with two_nodes() as (active, standby), Node(uri(scheme, active, standby)) as node:
        with load_on(node) as load:
            for _ in range(count(3, 30)):
                one = active if active.state() == 'ready' else standby
                os.kill(one.rtas()[0], signal.SIGKILL)
                until(lambda: sorted((active.state(), standby.state())) == ['ready', 'standby'])
                load.wait_for(32)


@with_each
def a_path_may_come_later(scheme):
    with two_nodes() as (active, standby), contextlib.ExitStack() as later:
        standby.kill()
        with Node(uri(scheme, standby, active)) as node, load_on(node) as load:
            until(lambda: f'{standby.at(scheme)}: no path, it is tried each second'
                  in node.said())
            later.enter_context(standby.again())
            until(lambda: f'{standby.at(scheme)}: connected\n' in node.said())
            active.kill()
            load.wait_for(32)


@case
def fio_verifies_over_a_killed_node():
    need('fio')
    with two_nodes() as (active, standby):
        ends = threading.Event()

        def killer():
            until(lambda: wrote(active) > 50)
            active.kill()
            ends.set()
        threading.Thread(target=killer, daemon=True).start()
        said = weft('attach', '--quiet', '--run='
                    'fio --name=judge --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k-64k '
                    '--iodepth=16 --size=4M --time_based --runtime=3 --verify=crc32c '
                    '--verify_fatal=1 --verify_state_save=0',
                    uri('tcp', active, standby), limit=300)
        assert said.returncode == 0 and ends.is_set(), said.stdout + said.stderr


def wrote(node):
    """What has completed: nothing of it is told before anything has."""
    return node.status()['volumes'][0].get('completions', {}).get('ok', 0)


# ---- what may be done twice


class Relay:
    """Stands before an address; told to, it keeps what the client sends and then leaves it."""

    def __init__(self, port):
        self.to = '127.0.0.1', port
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.holds = False
        self.held = 0
        self.clients = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.to)
                self.clients.append(client)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, come, go):
        with contextlib.suppress(OSError):
            while octets := come.recv(1 << 16):
                if self.holds and come in self.clients:
                    self.held += len(octets)
                else:
                    go.sendall(octets)

    def leave(self):
        """The client is left, and no other one let in; the target hears nothing of it."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for client in self.clients:
            client.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def two_addresses(more):
    """One node at two addresses, the first of them behind a relay; the relay, and a client."""
    with Node('--nvme-tcp=127.0.0.1:0', f'ram:1M?nqn={NQN}') as node:
        there = next(uri for uri in node.status()['volumes'][0]['uris']
                     if uri.startswith('nvme+tcp:'))
        port, = re.match(r'nvme\+tcp://127\.0\.0\.1:(\d+)/', there).groups()
        relay = Relay(int(port))
        with Node(f'nvme+tcp://127.0.0.1:{relay.port}/{NQN}?paths=127.0.0.1:{port}{more}') as own:
            until(lambda: f'127.0.0.1:{port}: connected\n' in own.said())
            with Client(own) as client:
                yield relay, own, client.go()


@case
def a_read_goes_by_another_path_at_once_and_a_write_when_its_own_is_quiet():
    with two_addresses('&keep_alive=500ms') as (relay, own, client):
        relay.holds = True
        client.request(WRITE, 0, BLOCK, cookie=1, data=b'w' * BLOCK)
        client.request(READ, BLOCK, BLOCK, cookie=2)
        until(lambda: relay.held >= BLOCK + 2 * 72)
        relay.leave()
        assert client.answer(BLOCK, cookie=2) == (0, bytes(BLOCK))
        assert 'sent again' not in own.said()
        assert client.answer(0, cookie=1) == (0, b'')
        assert 'sent again, 1 that were out: it has let go of this host by now' in own.said()


@case
def a_write_is_sent_at_once_to_who_has_the_volume_alone():
    with two_nodes() as (active, standby):
        # A keep-alive time that nobody waits for.
        with Node(uri('tcp', active, standby, more='&keep_alive=1000s')) as node:
            with load_on(node) as load:
                active.kill()
                load.wait_for(32)
            assert 'it has let go' not in node.said()


# ---- the shell


@case
def weft_cp_takes_several_paths_and_weft_info_says_which_is_good():
    with two_nodes() as (active, standby), folder() as place:
        file, back = place / 'file', place / 'back'
        file.write_bytes(os.urandom(1 << 20))
        both = uri('tcp', standby, active)
        expect(weft('cp', '--quiet', file, both), 0, '')
        expect(weft('cp', '--quiet', both, back), 0, '')
        assert back.read_bytes()[:1 << 20] == file.read_bytes()
        for node, access in ((active, 'optimized'), (standby, 'inaccessible')):
            said = weft('info', '--json', f'nvme+tcp://{node.at("tcp")}/{NQN}')
            assert json.loads(said.stdout)['controller']['access'] == access, said.stdout
        expect_error(weft('cp', '--quiet', file, f'nvme+tcp://{standby.at("tcp")}/{NQN}'), 1,
                     'another node serves it')


# ---- without a path


@case
def commands_without_a_path_wait_and_then_fail():
    with two_nodes() as (active, standby):
        with Node(uri('tcp', active, standby, more='&patience=100ms')) as node:
            with Client(node) as client:
                client.go().request(FLUSH)
                assert client.answer() == (0, b'')
                active.kill()
                standby.kill()
                client.request(WRITE, 0, BLOCK, data=b'x' * BLOCK)
                error, _ = client.answer()
                assert error != 0
                with active.again():
                    until(lambda: is_written(client))


def is_written(client):
    client.request(WRITE, 0, BLOCK, data=b'x' * BLOCK)
    return client.answer()[0] == 0


# ---- what is refused


@case
def addresses_that_are_none_are_refused():
    with folder() as place:
        for paths, why in (('', 'it is HOST[:PORT], and more of them behind commas'),
                           ('[::1', 'it is HOST[:PORT], and more of them behind commas'),
                           ('127.0.0.1:4420', 'this address is named twice'),
                           (','.join(f'10.0.0.{i}' for i in range(8)), 'a volume has at most 8')):
            expect_error(weft('serve', f'--nbd=unix:{place}/nbd',
                              f'nvme+tcp://127.0.0.1/{NQN}?paths={paths}'), 1, why)


@case
def another_volume_of_the_same_name_is_no_path():
    with folder() as place:
        nodes = []
        for name in 'one', 'two':
            disk = place / name
            disk.write_bytes(bytes(DISK_LEN))
            nodes.append(Target(disk, 0))
        with nodes[0] as one, nodes[1] as two, Node(uri('tcp', one, two)) as node:
            until(lambda: f'{two.at("tcp")}: no path, it is tried each second: there is another '
                  'volume now' in node.said())
            with load_on(node):
                pass


if __name__ == '__main__':
    main()
