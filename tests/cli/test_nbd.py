#!/usr/bin/env python3
"""weft ls, info and cp at NBD servers: weft's own, nbdkit, qemu-nbd, and some that misbehave."""

import contextlib
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

from cases import (BUILD, WEFT, Skip, case, expect, expect_error, main, scratch, skip_all,
                   weft)
from nodes import SIZE, node, octets, report

OPTION_REPLY, SIMPLE, STRUCTURED = 0x3e889045565a9, 0x67446698, 0x668e33ef
GO, LIST, ABORT, STRUCTURED_REPLY, SET_META_CONTEXT = 7, 3, 2, 8, 10
READ, WRITE, LEAVE, FLUSH, BLOCK_STATUS = 0, 1, 2, 3, 7
HOLE, ZERO = 1, 2


# --- servers --------------------------------------------------------------------------------------


@contextlib.contextmanager
def program(socket_path, *words):
    """A server in a process of its own, once its socket is there."""
    if shutil.which(words[0]) is None:
        raise Skip(f'{words[0]} is not installed')
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not pathlib.Path(socket_path).exists():
            assert process.poll() is None and time.monotonic() < deadline, words
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def nbdkit(*words):
    with scratch() as folder:
        path = f'{folder}/socket'
        with program(path, 'nbdkit', '-f', '-U', path, *words):
            yield f'nbd+unix:///?socket={path}'


@contextlib.contextmanager
def qemu_nbd(image, *words):
    with scratch() as folder:
        path = f'{folder}/socket'
        with program(path, 'qemu-nbd', '-f', 'raw', '-t', '-x', 'disk a', '-k', path, *words,
                     str(image)):
            yield f'nbd+unix:///?socket={path}', f'nbd+unix:///disk%20a?socket={path}'


class Stranger:
    """A server of the newstyle that keeps to the protocol until a request comes."""

    flags = 1  # has flags
    has_left = False

    def __init__(self, connection, size, answer):
        self.connection, self.size, self.answer = connection, size, answer

    def take(self, length):
        octets = b''
        while len(octets) < length:
            more = self.connection.recv(length - len(octets))
            if not more:
                raise ConnectionError
            octets += more
        return octets

    def put(self, octets):
        self.connection.sendall(octets)

    def reply(self, option, kind, data=b''):
        self.put(struct.pack('>QIII', OPTION_REPLY, option, kind, len(data)) + data)

    def negotiate(self):
        self.put(b'NBDMAGICIHAVEOPT' + struct.pack('>H', 3))
        self.take(4)
        while True:
            _, option, length = struct.unpack('>8sII', self.take(16))
            self.take(length)
            if option == GO:
                self.reply(GO, 3, struct.pack('>HQH', 0, self.size, self.flags))
                self.reply(GO, 1)
                return
            self.reply(option, 1 << 31 | 1)  # not known

    def serve(self):
        self.negotiate()
        while True:
            _, _, kind, cookie, at, length = struct.unpack('>IHHQQI', self.take(28))
            if not self.answer(self, kind, cookie, at, length):
                return


@contextlib.contextmanager
def stranger(answer, size=SIZE, kind=Stranger):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        def run():
            with contextlib.suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    with connection, contextlib.suppress(OSError):
                        kind(connection, size, answer).serve()
        threading.Thread(target=run, daemon=True).start()
        yield f'nbd://127.0.0.1:{listener.getsockname()[1]}'
        listener.shutdown(socket.SHUT_RDWR)


class Knowing(Stranger):
    """One that tells of its blocks; `answer(server, at, length)` is what it tells: [(length,
    flags)], or None: an error. Octets that it does not call zeroes are x."""

    contexts = {1: b'base:allocation'}
    blocks = None  # least, preferred, most
    asked = 0

    def negotiate(self):
        self.put(b'NBDMAGICIHAVEOPT' + struct.pack('>H', 3))
        self.take(4)
        while True:
            _, option, length = struct.unpack('>8sII', self.take(16))
            self.take(length)
            if option == SET_META_CONTEXT:
                for number, name in self.contexts.items():
                    self.reply(option, 4, struct.pack('>I', number) + name)
            if option == GO:
                self.reply(GO, 3, struct.pack('>HQH', 0, self.size, self.flags))
                if self.blocks:
                    self.reply(GO, 3, struct.pack('>HIII', 3, *self.blocks))
            known = option in (STRUCTURED_REPLY, SET_META_CONTEXT, GO)
            self.reply(option, 1 if known else 1 << 31 | 1)
            if option == GO:
                return

    def chunk(self, cookie, kind, data, flags=1):
        self.put(struct.pack('>IHHQI', STRUCTURED, flags, kind, cookie, len(data)) + data)

    def tell(self, cookie, extents):
        if extents is None:
            self.chunk(cookie, 1 << 15 | 1, struct.pack('>IH', 22, 0))  # EINVAL
            return
        self.chunk(cookie, 5, struct.pack('>I', 1) + b''.join(struct.pack('>II', *each)
                                                             for each in extents))

    def serve(self):
        self.negotiate()
        while True:
            _, _, kind, cookie, at, length = struct.unpack('>IHHQQI', self.take(28))
            if kind == LEAVE:
                return
            if kind == BLOCK_STATUS:
                type(self).asked += 1
                self.tell(cookie, self.answer(self, at, length))
            else:
                self.chunk(cookie, 1, struct.pack('>Q', at) + b'x' * length)


def copied(answer, **words):
    """What `weft cp` reads at a knowing server, its report, and how often it asked."""
    kind = type('Server', (Knowing,), words)
    with stranger(answer, kind=kind) as uri, scratch() as folder:
        copy = pathlib.Path(folder, 'copy')
        out = report(weft('cp', '--json', uri, copy))
        return copy.read_bytes(), out['source'], kind.asked


def honest(server, kind, cookie, at, length):
    server.put(struct.pack('>IIQ', SIMPLE, 0, cookie) + (bytes(length) if kind == READ else b''))
    return kind != LEAVE


# --- what there is --------------------------------------------------------------------------------


@case
def ls_lists_the_exports_and_info_shows_one():
    with node() as ours:
        listed = report(weft('ls', '--json', f'nbd+unix:///?socket={ours.socket}'))
        assert [each['export'] for each in listed] == ['a'], listed
        assert listed == report(weft('ls', '--json', listed[0]['uri'])), listed
        assert listed[0]['size'] == SIZE and not listed[0]['read_only'], listed
        text = weft('info', listed[0]['uri'])
        expect(text, 0, None)
        assert "export 'a'" in text.stdout and f'{SIZE} octets' in text.stdout, text.stdout
        shown = report(weft('info', '--json', listed[0]['uri']))
        assert shown['server']['block_status'] and shown['server']['structured_replies'], shown


@case
def an_export_s_name_may_have_blanks():
    with scratch() as folder:
        image = pathlib.Path(folder, 'image')
        image.write_bytes(octets(SIZE))
        with qemu_nbd(image, '--read-only') as (server, export):
            listed = report(weft('ls', '--json', server))
            assert [each['uri'] for each in listed] == [export], listed
            assert listed[0]['export'] == 'disk a' and listed[0]['read_only'], listed
            assert ' read-only\n' in weft('ls', server).stdout


@case
def what_is_not_there_is_named():
    with node() as ours:
        expect_error(weft('info', f'nbd+unix:///no?socket={ours.socket}'), 1, 'cannot use',
                     "'no'")
    expect_error(weft('ls', 'nbd://127.0.0.1:1'), 1, 'cannot list', 'Connection refused')
    expect_error(weft('info', 'nbd+unix:///?socket=/no/where'), 1, 'No such file')


# --- copies ---------------------------------------------------------------------------------------


@case
def what_is_copied_there_comes_back():
    with node() as ours, scratch() as folder:
        there, back = pathlib.Path(folder, 'there'), pathlib.Path(folder, 'back')
        there.write_bytes(octets(SIZE))
        uri = f'nbd+unix:///a?socket={ours.socket}'
        out = report(weft('cp', '--json', '--verify', there, uri))
        assert out['octets'] == SIZE and out['destination']['octets_written'] == SIZE, out
        assert ours.disk.read_bytes() == there.read_bytes()
        home = report(weft('cp', '--json', uri, back))
        assert home['source']['errors'] == 0 and back.read_bytes() == there.read_bytes()


@case
def streams_go_both_ways():
    data = octets(SIZE - 777)
    with nbdkit('memory', str(SIZE)) as uri, scratch() as folder:
        there, back = pathlib.Path(folder, 'there'), pathlib.Path(folder, 'back')
        there.write_bytes(data)
        with open(there, 'rb') as stream:
            assert report(weft('cp', '--json', '-', uri, stdin=stream))['octets'] == len(data)
        with open(back, 'wb') as stream:
            assert weft('cp', uri, '-', stdout=stream).returncode == 0
        assert back.read_bytes() == data + bytes(777)


@case
def who_stops_reading_a_stream_ends_the_copy_as_it_ends_cat():
    with nbdkit('memory', '64M') as uri:
        reader = subprocess.Popen(['head', '-c', '1'], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL)
        said = subprocess.run([WEFT, 'cp', uri, '-'], stdout=reader.stdin, stderr=subprocess.PIPE,
                              text=True, timeout=60)
        reader.stdin.close()
        reader.wait(60)
    assert said.returncode == -signal.SIGPIPE, said


@case
def holes_are_asked_for_and_stay_holes():
    with scratch() as folder:
        image, copy = pathlib.Path(folder, 'image'), pathlib.Path(folder, 'copy')
        with open(image, 'wb') as file:
            file.truncate(SIZE)
            file.seek(1 << 20)
            file.write(octets(1 << 20))
        copy.write_bytes(b'x' * SIZE)
        with nbdkit('file', str(image)) as uri:
            out = report(weft('cp', '--json', '--sparse', uri, copy))
            assert copy.read_bytes() == image.read_bytes()
            assert out['zeroes'] == 2 << 20 and out['source']['octets_known'] == 2 << 20, out
            assert out['source']['octets_read'] == 1 << 20, out
            assert copy.stat().st_blocks * 512 < SIZE
        # One that cannot be asked is read.
        with nbdkit('--filter=noextents', 'file', str(image)) as uri:
            out = report(weft('cp', '--json', '--sparse', uri, copy))
            assert copy.read_bytes() == image.read_bytes()
            assert out['zeroes'] == 2 << 20, out


@case
def zeroes_are_told_to_a_server_that_takes_them():
    data = octets(1 << 20) + bytes(1 << 20) + octets(1 << 20)
    with scratch() as folder:
        source = pathlib.Path(folder, 'source')
        source.write_bytes(data)
        for words, written in ((('memory', '3M'), 2 << 20),
                               (('--filter=nozero', 'memory', '3M'), 3 << 20)):
            with nbdkit(*words) as uri:
                out = report(weft('cp', '--json', '--sparse', '--verify', source, uri))
                assert out['zeroes'] == 1 << 20, out
                assert out['destination']['octets_written'] == written, (words, out)


@case
def blocks_of_a_server_are_kept_to():
    with scratch() as folder:
        source = pathlib.Path(folder, 'source')
        source.write_bytes(octets(100001))
        with nbdkit('--filter=blocksize-policy', 'memory', '1M', 'blocksize-minimum=4096',
                    'blocksize-maximum=64K', 'blocksize-error-policy=error') as uri:
            shown = report(weft('info', '--json', uri))
            assert (shown['block_size'], shown['server']['transfer_max']) == (4096, 65536), shown
            assert report(weft('cp', '--json', '--verify', source, uri))['octets'] == 100001


@case
def what_does_not_fit_is_refused():
    with scratch() as folder, nbdkit('memory', '1M') as uri:
        source = pathlib.Path(folder, 'source')
        source.write_bytes(bytes((1 << 20) + 1))
        expect_error(weft('cp', source, uri), 1, 'it has 1048576 octets, fewer than the 1048577')
        with open(source, 'rb') as stream:
            expect_error(weft('cp', '-', uri, stdin=stream), 1,
                         'at octet 1048576: No space left on device')
    with scratch() as folder, nbdkit('-r', 'memory', '1M') as uri:
        source = pathlib.Path(folder, 'source')
        source.write_bytes(bytes(512))
        expect_error(weft('cp', source, uri), 1, 'the volume is read-only')


@case
def two_protocols_meet_in_a_copy():
    with node() as ours, nbdkit('memory', str(SIZE)) as uri:
        ours.disk.write_bytes(octets(SIZE))
        out = report(weft('cp', '--json', ours.uri, uri))
        assert out['source']['octets_read'] == out['destination']['octets_written'] == SIZE, out
        report(weft('cp', '--json', '--verify', uri, ours.uri))


# --- what a server tells of its blocks ------------------------------------------------------------


@case
def only_what_is_told_to_be_zeroes_is_not_read():
    half = SIZE // 2
    data, source, asked = copied(lambda server, at, length: [(half, HOLE | ZERO), (half, HOLE)])
    assert data == bytes(half) + b'x' * half and source['octets_known'] == half, source
    assert source['octets_read'] == half and asked == 1, (source, asked)


@case
def a_server_that_tells_much_is_asked_again_for_the_rest():
    # More extents than one answer is kept of, and the last of them beyond what was asked for.
    data, source, asked = copied(lambda server, at, length: [(4096, ZERO)] * (length // 4096) +
                                 [(1 << 30, ZERO)])
    assert data == bytes(SIZE) and source['octets_known'] == SIZE, source
    assert source['errors'] == 0 and asked == SIZE // 4096 // 128, (source, asked)


@case
def who_gives_no_good_answer_is_not_asked_again():
    for extents in None, [(0, ZERO), (SIZE, ZERO)]:
        data, source, asked = copied(lambda server, at, length, extents=extents: extents)
        assert data == b'x' * SIZE and source['octets_known'] == 0 and asked == 1, (source, asked)


@case
def what_is_told_of_something_else_says_nothing_of_zeroes():
    def tell(server, cookie, extents):
        server.chunk(cookie, 5, struct.pack('>III', 1, SIZE, 0), flags=0)
        server.chunk(cookie, 5, struct.pack('>III', 2, SIZE, ZERO))
    data, source, _ = copied(lambda *words: [], tell=tell,
                             contexts={1: b'base:allocation', 2: b'x:dirty'})
    assert data == b'x' * SIZE and source['octets_known'] == 0, source


@case
def a_size_that_is_not_in_whole_blocks_is_refused():
    kind = type('Server', (Knowing,), {'blocks': (4096, 4096, 65536)})
    with stranger(None, size=SIZE + 512, kind=kind) as uri:
        expect_error(weft('info', uri), 1, 'cannot use the volume',
                     f'its size, {SIZE + 512} octets, is not in whole blocks of 4096')


@case
def blocks_that_cannot_or_need_not_be_are_as_good_as_none():
    for blocks in (1 << 17, 1 << 17, 1 << 20), (3, 4096, 65536), (4096, 4096, 2048):
        kind = type('Server', (Knowing,), {'blocks': blocks})
        with stranger(None, kind=kind) as uri:
            shown = report(weft('info', '--json', uri))
            assert (shown['block_size'], shown['server']['transfer_max']) == (1, 32 << 20), shown
    kind = type('Server', (Knowing,), {'blocks': (1, 4096, 64 << 20)})
    with stranger(None, kind=kind) as uri:
        assert report(weft('info', '--json', uri))['server']['transfer_max'] == 32 << 20


@case
def who_can_flush_is_asked_to_in_the_end_and_each_is_told_goodbye():
    for flags, ends in (1, [WRITE, LEAVE]), (1 | 4, [WRITE, FLUSH, LEAVE]):
        kinds = []

        def notes(server, kind, cookie, at, length, kinds=kinds):
            kinds.append(kind)
            server.take(length if kind == WRITE else 0)
            return honest(server, kind, cookie, at, length)
        with (stranger(notes, kind=type('Server', (Stranger,), {'flags': flags})) as uri,
              scratch() as folder):
            source = pathlib.Path(folder, 'source')
            source.write_bytes(octets(4096))
            assert report(weft('cp', '--json', source, uri))['octets'] == 4096
            deadline = time.monotonic() + 30
            while LEAVE not in kinds and time.monotonic() < deadline:
                time.sleep(0.01)
        assert kinds == ends, kinds


# --- servers that fail ----------------------------------------------------------------------------


@case
def an_error_of_the_server_is_told_with_its_place():
    with scratch() as folder:
        with nbdkit('--filter=error', 'memory', '4M', 'error=ENOSPC', 'error-pwrite-rate=1') as uri:
            source = pathlib.Path(folder, 'source')
            source.write_bytes(bytes(4096))
            expect_error(weft('cp', source, uri), 1, 'not copied',
                         'at octet 0 the target answers: No space left on device')


@case
def a_server_that_leaves_is_told_of():
    def leaves(server, kind, cookie, at, length):
        if at == 1 << 20:
            server.connection.shutdown(socket.SHUT_WR)
            server.has_left = True
        return server.has_left or honest(server, kind, cookie, at, length)
    with stranger(leaves) as uri, scratch() as folder:
        expect_error(weft('cp', uri, f'{folder}/copy'), 1, 'not copied', uri,
                     'the server ended the connection')


@case
def an_answer_to_nothing_that_was_asked_ends_the_copy():
    def strange(server, kind, cookie, at, length):
        return honest(server, kind, cookie ^ 1 << 63, at, length)
    with stranger(strange) as uri, scratch() as folder:
        expect_error(weft('cp', uri, f'{folder}/copy'), 1, 'not copied', uri)


@case
def more_data_than_was_asked_for_ends_the_copy():
    def generous(server, kind, cookie, at, length):
        return honest(server, kind, cookie, at, length + 4096)
    with stranger(generous) as uri, scratch() as folder:
        expect_error(weft('cp', uri, f'{folder}/copy'), 1, 'not copied', uri)


@case
def no_answer_of_nbd_at_all_is_told():
    def noise(server, kind, cookie, at, length):
        server.put(b'x' * 4096)
        return True
    with stranger(noise) as uri, scratch() as folder:
        expect_error(weft('cp', uri, f'{folder}/copy'), 1, 'not copied', uri)


@case
def a_server_that_leaves_when_asked_of_its_blocks_is_told_of():
    def leaves(server, at, length):
        raise ConnectionError
    with stranger(leaves, kind=type('Server', (Knowing,), {})) as uri, scratch() as folder:
        expect_error(weft('cp', uri, f'{folder}/copy'), 1, 'not copied', uri, 'block-status')


@case
def without_its_part_for_nbd_weft_says_so():
    with scratch() as folder:
        (pathlib.Path(folder) / 'lib').mkdir()
        for name in 'libibverbs.so.1', 'librdmacm.so.1', 'libweft.so.1':
            (pathlib.Path(folder) / 'lib' / name).symlink_to(BUILD / 'lib' / name)
        alone = shutil.copy(WEFT, f'{folder}/weft')
        for command, *more in ['info'], ['ls'], ['cp', f'{folder}/copy']:
            said = weft(command, 'nbd://127.0.0.1:1', *more, program=alone)
            expect_error(said, 1, "weft's part for NBD is not there: ", 'weft-nbd.so', 'libnbd-dev')
        # And it needs it for nothing else.
        expect_error(weft('ls', 'nvme+tcp://127.0.0.1:1', program=alone), 1, 'Connection refused')


@case
def a_size_that_cannot_be_is_refused():
    with stranger(honest, size=1 << 63) as uri:
        expect_error(weft('info', uri), 1, 'cannot use the volume', uri)


@case
def a_server_without_a_list_is_told_of():
    with stranger(honest) as uri:
        expect_error(weft('ls', uri), 1, 'cannot list', uri)
        shown = report(weft('info', '--json', uri))
        assert shown['size'] == SIZE and not shown['server']['block_status'], shown
        assert report(weft('ls', '--json', f'{uri}/one'))[0]['size'] == SIZE  # need not be asked


@case
def a_server_of_the_old_style_has_one_volume():
    def old(server):
        server.put(b'NBDMAGIC' + struct.pack('>QQI', 0x420281861253, SIZE, 1) + bytes(124))
        while server.take(28):
            pass
    with stranger(None, kind=type('Server', (Stranger,), {'serve': old})) as uri:
        expect_error(weft('ls', uri), 1, 'cannot list', 'the server is of the old style')
        assert report(weft('info', '--json', uri))['size'] == SIZE


if not (BUILD / 'lib/weft-nbd.so').exists():
    skip_all('built without libnbd')
main()
