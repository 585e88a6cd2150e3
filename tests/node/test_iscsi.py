#!/usr/bin/env python3
"""The iscsi driver judged by Debian's tgt: as a file, and what only a network does to it."""

import contextlib
import re
import shutil
import socket
import struct
import tempfile
import threading
import time

import clients
import portals
from serving import (LIMIT, Node, Skip, captive, case, folder, free_port, main, need, os, pathlib,
                     run, signal, subprocess, until, weft)

PATH = os.environ['PATH'] + ':/usr/sbin:/sbin'
NAME = 'iqn.2026-11.invalid.judge:disk'
PROGRAM = pathlib.Path(os.environ['WEFT_BUILD_DIR'], 'tests/test_node_ddm')
SIZE = 16 << 20


class Target:
    """tgtd with one logical unit of a file, for as long as the block lasts."""

    def __init__(self, block_size=512):
        self.block_size = block_size

    def __enter__(self):
        if not shutil.which('tgtd', path=PATH) or not shutil.which('tgtadm', path=PATH):
            raise Skip('no tgtd (package tgt)')
        self.place = tempfile.TemporaryDirectory(prefix='weft-tgt.')
        self.disk = pathlib.Path(self.place.name, 'disk')
        with self.disk.open('wb') as file:
            file.truncate(SIZE)
        self.port = free_port()
        self.env = {**os.environ, 'PATH': PATH,
                    'TGT_IPC_SOCKET': str(pathlib.Path(self.place.name, 'control'))}
        self.log = pathlib.Path(self.place.name, 'log')
        with self.log.open('w') as log:
            self.process = subprocess.Popen(
                ['tgtd', '-f', '-C', '1', '--iscsi', f'portal=127.0.0.1:{self.port}'],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(self.is_there)
            self.configure()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()  # it does not listen to less
        self.process.wait()
        self.place.cleanup()

    def is_there(self):
        if self.process.poll() is not None:
            said = self.log.read_text().strip().splitlines() or ['nothing']
            raise Skip(f'tgtd does not run here: {said[-1]}')
        return self.ask('--mode', 'target', '--op', 'show').returncode == 0

    def ask(self, *words):
        return subprocess.run(['tgtadm', '-C', '1', '--lld', 'iscsi', *map(str, words)],
                              env=self.env, stdin=subprocess.DEVNULL, timeout=LIMIT, text=True,
                              capture_output=True)

    def tell(self, *words):
        said = self.ask(*words)
        assert said.returncode == 0, f'tgtadm {words}: {said.stderr}'

    def configure(self):
        unit = ['--mode', 'logicalunit', '--tid', 1, '--lun', 1]
        self.tell('--op', 'new', '--mode', 'target', '--tid', 1, '-T', NAME)
        self.tell('--op', 'new', *unit, '-b', self.disk, '--bstype', 'rdwr',
                  '--blocksize', self.block_size)
        self.tell('--op', 'update', *unit, '--params', 'thin_provisioning=1')
        self.tell('--op', 'bind', '--mode', 'target', '--tid', 1, '-I', 'ALL')

    def update(self, parameter):
        self.tell('--op', 'update', '--mode', 'logicalunit', '--tid', 1, '--lun', 1,
                  '--params', parameter)

    def uri(self, *parameters, port=None):
        tail = '?' + '&'.join(parameters) if parameters else ''
        return f'disk=iscsi://127.0.0.1:{port or self.port}/{NAME}/1{tail}'


class Wire:
    """A relay before the target, whose connections can be cut, and kept from coming back."""

    def __init__(self, port):
        self.target = port
        self.is_open = True
        self.pairs = []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if not self.is_open:
                client.close()
                continue
            server = socket.create_connection(('127.0.0.1', self.target))
            pair = (client, server)
            self.pairs.append(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    @staticmethod
    def _relay(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for end in (end for pair in pairs for end in pair):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_open = False
        self.cut()
        self.listener.close()


@case
def the_contract_holds():
    """As tests/node/test_ddm.c asks it of every driver that keeps data."""
    for block_size in (512, 4096):
        with Target(block_size) as target:
            run(PROGRAM, target.uri().partition('=')[2])


@case
def nbdinfo_sees_what_the_unit_can():
    need('nbdinfo')
    with Target(4096) as target:
        said = captive('nbdinfo "$uri"', target.uri())
    for line in (f'export-size: {SIZE} ', 'can_trim: true', 'can_zero: true', 'can_fua: true',
                 'can_flush: true', 'block_size_minimum: 4096'):
        assert line in said, said


@case
def clients_do_as_with_a_file():
    with Target() as target, folder() as place:
        volume = target.uri()
        clients.nbdcopy_round_trip(place, volume, SIZE)
        run('cmp', target.disk, pathlib.Path(place, 'data'))
        clients.qemu_io_writes_zeroes_and_discards(volume)
        clients.qemu_img_round_trip(place, volume, SIZE)
        clients.fio_verifies(volume)


@case
def the_unit_keeps_its_identity():
    with Target() as target:
        first, second = (re.search('uuid (.*)', weft(
            'serve', '--nbd=127.0.0.1:0', '--run=true', target.uri()).stdout)[1]
            for _ in range(2))
        assert first == second


def harass(load, seconds, do_harm):
    """Again and again while the load runs, which ends without an error."""
    deadline = time.monotonic() + LIMIT
    with load:
        while load.poll() is None and time.monotonic() < deadline:
            time.sleep(seconds)
            do_harm()
        load.kill()
        said = load.stderr.read().decode()
    assert load.returncode == 0, f'status {load.returncode}: {said}'


@case
def a_lost_session_loses_nothing():
    """Its connection is cut again and again while fio writes and verifies."""
    need('fio')
    with Target() as target, Wire(target.port) as wire, Node(target.uri(port=wire.port)) as node:
        load = subprocess.Popen([*clients.fio_words(), '--time_based', '--runtime=3',
                                 '--io_size=100G', '--verify_backlog=64', f'--uri={node.uri()}'],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        harass(load, 0.5, wire.cut)
        said = node.said()
        assert 'is lost, commands wait' in said and 'is back' in said, said


@case
def a_target_that_stays_away_is_an_error_and_may_come_back():
    need('qemu-io')
    with Target() as target, Wire(target.port) as wire, \
            Node(target.uri('patience=500ms', port=wire.port)) as node:
        write = ['qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', node.uri()]
        run(*write)
        wire.is_open = False
        wire.cut()
        failed = subprocess.run(write, capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode != 0, failed
        wire.is_open = True
        until(lambda: 'is back' in node.said())
        run(*write)


@case
def a_target_that_does_not_answer_is_called_again():
    """It is stopped, so that the connection stays and nothing comes; then goes on."""
    need('qemu-io')
    with Target() as target, Node(target.uri('timeout=500ms')) as node:
        target.process.send_signal(signal.SIGSTOP)
        write = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', '-c',
                                  'read -P 5 0 64k', node.uri()], stdout=subprocess.DEVNULL)
        try:
            until(lambda: 'the target does not answer' in node.said())
        finally:
            target.process.send_signal(signal.SIGCONT)
        assert write.wait(LIMIT) == 0


@case
def fio_verifies_while_rtas_are_killed():
    need('fio')
    with Target() as target, Node(target.uri()) as node:
        load = subprocess.Popen([*clients.fio_words(), '--time_based', '--runtime=3',
                                 '--io_size=100G', '--verify_backlog=64', f'--uri={node.uri()}'],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        kills = []
        harass(load, 1, lambda: kills.extend(os.kill(pid, signal.SIGKILL) for pid in node.rtas()))
        assert kills


READ, WRITE, INQUIRY, CAPACITY = 0x88, 0x8a, 0x12, 0x9e
GOOD_RESPONSE, DATA_IN = 0x21, 0x25


class Forgetful(portals.Session):
    """A disk of a MiB that takes writes, and says of a read that all is well without any data, or
    with the first half of them."""
    half = False

    def command(self, request, data):
        wanted, = struct.unpack_from('>I', request, 20)
        answers = {INQUIRY: bytes([0, 0, 6, 2, 31]).ljust(36, b' ') if request[33] == 0 else b'',
                   CAPACITY: struct.pack('>QI', (1 << 20) // 512 - 1, 512).ljust(32, b'\0'),
                   READ: b'new!' * (wanted // 8) if self.half else b''}
        answer = answers.get(request[32], b'')[:wanted]
        missing = 0 if request[32] in (READ, WRITE) else wanted - len(answer)
        flags = 0x80 | (2 if missing else 0)
        tail = struct.pack('>III', 0, 0, missing)
        if answer:
            self.send(DATA_IN, flags | 1, request, answer, tail=tail)
        else:
            self.send(GOOD_RESPONSE, flags, request, tail=tail)


class HalfForgetful(Forgetful):
    half = True


@case
def what_a_target_does_not_send_is_nobodys_data():
    """The octets that another request left in the same memory least of all."""
    need('qemu-io')
    for session, begin in ((Forgetful, b''), (HalfForgetful, b'new!')):
        with portals.Hostile(b'', units=1, session=session) as portal, \
                Node(f'disk=iscsi://127.0.0.1:{portal.port}/{NAME}/0') as node, folder() as place:
            back = pathlib.Path(place, 'back')
            run('qemu-io', '-f', 'raw', '-c', 'write -P 0xee 0 4k', node.uri())
            run('nbdcopy', '--request-size=4096', node.uri(), back)
            got = back.read_bytes()[:4096]
            assert b'\xee' not in got and got.startswith(begin), got[:64]


@case
def a_unit_that_is_offline_for_a_moment_is_waited_for():
    need('qemu-io')
    with Target() as target, Node(target.uri()) as node:
        target.update('online=No')
        write = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', '-c',
                                  'read -P 5 0 64k', node.uri()], stdout=subprocess.DEVNULL)
        time.sleep(0.3)  # that it meets the unit so is likely, not needed
        target.update('online=Yes')
        assert write.wait(LIMIT) == 0


@case
def a_protected_unit_is_read_only():
    need('nbdinfo')
    with Target() as target:
        target.update('readonly=1')
        captive('nbdinfo --is read-only "$uri"', target.uri())


@case
def a_unit_whose_medium_fails_is_an_error():
    """Its file is shorter than it was."""
    need('qemu-io')
    with Target() as target, Node(target.uri()) as node:
        with target.disk.open('r+b') as file:
            file.truncate(1 << 20)
        read = ['qemu-io', '-f', 'raw', '-c', 'read {}k 64k', node.uri()]
        run(*(word.format(0) for word in read))
        failed = subprocess.run([word.format(8192) for word in read], capture_output=True,
                                text=True, timeout=LIMIT)
        assert failed.returncode != 0, failed


@case
def a_unit_is_served_once():
    with Target() as target, Node(target.uri()):
        second = weft('serve', '--nbd=127.0.0.1:0', '--run=true', target.uri())
        assert second.returncode != 0 and 'another process has it open' in second.stderr, second


@case
def what_is_not_there_is_named():
    with Target() as target:
        wrong = target.uri().replace('judge:disk/1', 'judge:nothing/1')
        for uri in (wrong, target.uri().replace('disk/1', 'disk/7')):
            said = weft('serve', '--nbd=127.0.0.1:0', '--run=true', uri)
            assert said.returncode != 0 and '127.0.0.1' in said.stderr, said


main()
