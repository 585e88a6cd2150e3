#!/usr/bin/env python3
"""The NBD TTS against clients that do not keep to the protocol, and those that do so oddly."""

import contextlib
import select
import signal
import struct

from nbd_client import (ABORT, ACK, CACHE, CONTEXT, DISCONNECT, EINVAL, ENOSPC, EOVERFLOW, EPERM,
                        EXPORT_NAME, EXTEND, FLUSH, GO, INFO, INVALID, LIST, MUST_EXTEND, OPTION,
                        READ, REQUEST, SERVER, SET_CONTEXT, SIMPLE, STARTTLS, STATUS, STRUCTURE,
                        STRUCTURED, TOO_BIG, TRIM, UNKNOWN, UNSUPPORTED, WRITE, ZEROES, Client)
from serving import Node, case, folder, main, until


def still_serves(node):
    with Client(node).go() as client:
        client.request(READ, 0, 512)
        assert client.answer(512)[0] == 0


def on_node(function):
    """A case with a node of 1 MiB of memory, which must serve afterwards too."""
    def run():
        with Node('ram:1M') as node:
            function(node)
            still_serves(node)
    run.__name__ = function.__name__
    return case(run)


@on_node
def an_old_client_is_served(node):
    for flags, padding in ((1, 124), (3, 0)):
        with Client(node, flags) as client:
            client.option(EXPORT_NAME, b'ram')
            size, _ = struct.unpack('>QH', client.take(10))
            assert size == 1 << 20
            client.take(padding)
            client.request(WRITE, 0, 4, data=b'weft')
            assert client.answer() == (0, b'')


@on_node
def options_that_are_unknown_or_malformed_are_refused(node):
    with Client(node) as client:
        for number, data, said in ((STARTTLS, b'', UNSUPPORTED), (99, b'x' * 100, UNSUPPORTED),
                                   (GO, b'', INVALID), (GO, b'\xff' * 6, INVALID),
                                   (INFO, struct.pack('>IH', 0, 9), INVALID),
                                   (LIST, b'x', INVALID), (STRUCTURE, b'x', INVALID),
                                   (SET_CONTEXT, b'', INVALID),
                                   (99, b'x' * 9000, TOO_BIG),
                                   (GO, struct.pack('>I', 3) + b'no!' + b'\0\0', UNKNOWN)):
            client.option(number, data)
            assert client.reply(number)[0] == said, (number, data[:9])
        client.go()


@on_node
def options_at_once_are_all_answered(node):
    with Client(node) as client:
        option = struct.pack('>QII', OPTION, 99, 0)
        listing = struct.pack('>QII', OPTION, LIST, 0)
        wishes = struct.pack('>IH', 0, 4000) + struct.pack('>HH', 1, 2) * 2000
        info = struct.pack('>QII', OPTION, INFO, len(wishes)) + wishes
        client.put(option * 3000 + listing * 20 + info * 3)
        assert all(client.reply(99) == (UNSUPPORTED, b'') for _ in range(3000))
        for _ in range(20):
            assert client.reply(LIST) == (SERVER, b'\0\0\0\3ram')
            assert client.reply(LIST) == (ACK, b'')
        for _ in range(3):
            said = [client.reply(INFO) for _ in range(5)]
            assert sorted(data[1] for _, data in said[:4]) == [0, 1, 2, 3] and said[4][0] == ACK
        client.go()


@on_node
def a_client_without_sense_is_cut_off(node):
    for octets in (struct.pack('>QII', OPTION + 1, GO, 0),
                   struct.pack('>QII', OPTION, EXPORT_NAME, 1 << 20)):
        with Client(node) as client:
            client.put(octets)
            assert client.is_ended()
    with Client(node, 1 << 31 | 1) as client:
        assert client.is_ended()
    with Client(node).go() as client:
        client.put(b'\0' * 28)
        assert client.is_ended()
    found = node.status()['nbd']
    assert found['malformed'] == 4, found


@on_node
def requests_without_sense_are_answered_and_no_more(node):
    with Client(node).go() as client:
        for command, offset, length, flags, data, error in (
                (READ, 1 << 20, 1, 0, b'', EINVAL), (READ, (1 << 64) - 1, 2, 0, b'', EINVAL),
                (READ, 0, 0, 0, b'', EINVAL), (READ, 0, (32 << 20) + 1, 0, b'', EINVAL),
                (WRITE, 1 << 20, 5, 0, b'12345', ENOSPC), (WRITE, 0, 5, 1 << 9, b'12345', EINVAL),
                (ZEROES, 1 << 20, 5, 0, b'', ENOSPC),
                (TRIM, 0, 2 << 20, 0, b'', EINVAL), (99, 0, 0, 0, b'', EINVAL),
                (CACHE, 1 << 20, 1, 0, b'', EINVAL), (CACHE, 0, 0, 0, b'', EINVAL),
                (CACHE, 0, 64 << 20, 0, b'', EINVAL), (READ, 0, 512, DF, b'', EINVAL),
                (STATUS, 0, 512, 0, b'', EINVAL)):
            client.request(command, offset, length, flags, data=data)
            assert client.answer()[0] == error, (command, offset, length)
        client.request(READ, 0, 512)
        assert client.answer(512)[0] == 0


@on_node
def a_refused_write_is_answered_behind_its_data(node):
    with Client(node).go() as client:
        for length in ((64 << 20) + 1, 80 << 20):
            client.request(WRITE, 0, length)
            client.put(bytes(length - 1))
            assert not select.select([client.socket], [], [], 0.2)[0]
            client.put(b'x')
            assert client.answer() == (EINVAL, b'')
    with Node('--read-only', 'ram:1M') as other, Client(other).go() as client:
        client.request(WRITE, 0, 1 << 20)
        client.put(bytes((1 << 20) - 1))
        assert not select.select([client.socket], [], [], 0.2)[0]
        client.put(b'x')
        assert client.answer() == (EPERM, b'')


def blocks(count, salt):
    """A mebibyte each, no two alike, with a hole after every fourth."""
    return b''.join(bytes([salt + i % 200]) * (1 << 20) if i % 4 else bytes(1 << 20)
                    for i in range(count))


def contents(client):
    """Of one read, from its chunks, which tell of all of it once."""
    found = sorted(pieces(client, [7])[7], key=lambda piece: piece[1])
    ends = [at + length for _, at, length, _ in found]
    assert [at for _, at, _, _ in found[1:]] == ends[:-1], found
    return b''.join(data for _, _, _, data in found)


@case
def what_is_longer_than_a_buffer_goes_in_parts_and_comes_back():
    """Of 64 MiB, with a pool that has room for one buffer of 32; others are served meanwhile."""
    with Node('--pool=64M', 'ram:80M') as node, Client(node).go(structured=True) as client:
        for length in (64 << 20, (32 << 20) + 1, (64 << 20) - 512):
            data = blocks(64, length & 7)[:length]
            client.request(WRITE, 0, length, data=data)
            assert client.answer() == (0, b'')
            client.request(READ, 0, length)
            assert contents(client) == data
        counts = node.status()['volumes'][0]['octets']
        assert counts['read'] == counts['write'] == (128 << 20) + (32 << 20) - 511, counts
        until(lambda: node.status()['pool_taken'] == 0)


@case
def how_long_a_request_may_be_is_told_and_kept():
    """A read that is answered in one chunk has to be had in one."""
    most = 64 << 20
    with Node('ram:80M') as node:
        for structured in (True, False):
            with Client(node) as client:
                if structured:
                    client.option(STRUCTURE)
                    assert client.reply(STRUCTURE) == (ACK, b'')
                client.option(GO, struct.pack('>IHH', 0, 1, 3))
                said = dict(struct.unpack_from('>H', data) + (data,) for kind, data in
                            iter(lambda c=client: c.reply(GO), (ACK, b'')))
                assert struct.unpack_from('>I', said[3], 10) == (most,)
                client.request(READ, 0, most + 1)
                if structured:
                    assert client.chunk()[2][:4] == struct.pack('>I', EOVERFLOW)
                    client.request(READ, 0, (32 << 20) + 1, DF)
                    assert client.chunk()[2][:4] == struct.pack('>I', EOVERFLOW)
                else:
                    assert client.answer() == (EINVAL, b'')


@case
def a_long_read_has_one_simple_reply_amid_others():
    with Node('--pool=64M', 'ram:40M') as node, Client(node).go() as client:
        data = blocks(34, 3)
        client.request(WRITE, 0, len(data), data=data)
        assert client.answer() == (0, b'')
        for cookie in range(3):
            client.request(READ, 1 << 20, 512, cookie=3 * cookie)
            client.request(READ, 512, len(data) - 512, cookie=3 * cookie + 1)
            client.request(READ, 1 << 20, 512, cookie=3 * cookie + 2)
        for cookie in range(9):
            if cookie % 3 == 1:
                assert client.answer(len(data) - 512, cookie) == (0, data[512:])
            else:
                assert client.answer(512, cookie) == (0, data[1 << 20:][:512])
        until(lambda: node.status()['pool_taken'] == 0)


@case
def a_part_that_fails_ends_the_request_behind_its_data():
    """The second part is beyond the end: what was left of the data is passed over."""
    with Node('ram:40M') as node, Client(node).go(structured=True) as client:
        client.request(WRITE, 0, 64 << 20, data=bytes(64 << 20))
        flags, kind, payload = client.chunk()
        assert (flags, kind, payload[:4]) == (1, 0x8001, struct.pack('>I', ENOSPC))
        client.request(READ, 8 << 20, 64 << 20)
        kinds = []
        while not kinds or kinds[-1] != 0x8001:
            flags, kind, payload = client.chunk()
            kinds.append(kind)
            assert flags == (kind == 0x8001), (flags, kind)
        assert payload[:4] == struct.pack('>I', EINVAL)
        client.request(READ, 0, 512)
        assert len(contents(client)) == 512


@case
def a_first_part_that_fails_ends_the_request_behind_its_data():
    """Nothing is read while a part is under way; what was left of the data is, when it failed."""
    with Node('ram:16M') as node, Client(node).go() as client:
        for length in (33 << 20, 64 << 20):
            client.request(WRITE, 0, length, data=bytes(length))
            assert client.answer() == (ENOSPC, b'')
        client.request(READ, 0, 512)
        assert client.answer(512) == (0, bytes(512))


@case
def a_client_that_leaves_between_parts_leaves_nothing_behind():
    with Node('delay+ram:80M?delay=50ms') as node:
        for _ in range(4):
            with Client(node).go(structured=True) as client:
                client.request(READ, 0, 64 << 20)
                client.request(WRITE, 0, 64 << 20, data=bytes(33 << 20))
        until(lambda: node.status()['pool_taken'] == 0)
        with Client(node).go() as client:
            client.request(READ, 0, 512)
            assert client.answer(512)[0] == 0


@on_node
def a_context_is_had_by_its_whole_name_alone(node):
    with Client(node) as client:
        assert client.set_context(b'base:allocation') == [INVALID]
        client.option(STRUCTURE)
        assert client.reply(STRUCTURE)[0] == ACK
        for query in (b'base:allocatiom', b'qemu:allocation', b'base:', b'base:allocation2', b''):
            assert client.set_context(query) == [ACK], query
        assert client.set_context(b'base:nothing', b'base:allocation') == [CONTEXT, ACK]
        client.go()
        client.request(STATUS, 0, 1 << 20)
        assert client.chunk()[:2] == (1, 5)
        for offset, length in ((1 << 20, 1), (0, (1 << 20) + 1)):
            client.request(STATUS, offset, length)
            flags, kind, payload = client.chunk()
            assert (flags, kind, payload[:4]) == (1, 0x8001, struct.pack('>I', EINVAL))


@on_node
def a_choice_of_contexts_that_fails_leaves_none(node):
    for spoil in (lambda client: client.set_context(b'base:allocation', name=b'no!'),
                  lambda client: client.set_context(b'base:nothing'),
                  lambda client: (client.option(SET_CONTEXT, b'x'), client.reply(SET_CONTEXT))):
        with Client(node) as client:
            client.option(STRUCTURE)
            assert client.reply(STRUCTURE)[0] == ACK
            assert client.set_context(b'base:allocation') == [CONTEXT, ACK]
            spoil(client)
            client.go()
            client.request(STATUS, 0, 512)
            flags, kind, payload = client.chunk()
            assert (flags, kind, payload[:4]) == (1, 0x8001, struct.pack('>I', EINVAL))


@case
def a_context_is_of_the_export_that_it_was_chosen_for():
    with Node('a=ram:1M', 'b=ram:1M') as node:
        for chosen, name, has_it in ((b'a', b'a', True), (b'a', b'b', False), (b'b', b'', False),
                                     (b'', b'a', True)):
            with Client(node) as client:
                client.option(STRUCTURE)
                assert client.reply(STRUCTURE)[0] == ACK
                assert client.set_context(b'base:allocation', name=chosen) == [CONTEXT, ACK]
                client.go(name)
                client.request(STATUS, 0, 512)
                flags, kind, payload = client.chunk()
                assert flags == 1 and (kind == 5) == has_it, (chosen, name, hex(kind))
                assert has_it or payload[:4] == struct.pack('>I', EINVAL)


@case
def a_cache_request_reads_ahead():
    with Node('ram:64M') as node, Client(node).go() as client:
        assert client.flags & 1 << 10
        for offset, length in ((0, 4096), (1, 1), (0, 64 << 20)):
            client.request(CACHE, offset, length)
            assert client.answer() == (0, b'')
        until(lambda: node.status()['pool_taken'] == 0)
        assert node.status()['volumes'][0]['octets']['read'] == 4096 + 1 + (32 << 20)


@case
def an_empty_file_is_an_export():
    with folder() as place:
        path = place / 'empty'
        path.write_bytes(b'')
        with Node(path) as node:
            with Client(node) as client:
                client.option(LIST)
                assert client.reply(LIST) == (SERVER, b'\0\0\0\5empty')
            with Client(node).go(b'empty') as client:
                assert client.size == 0
                client.request(READ, 0, 1)
                assert client.answer()[0] == EINVAL


@on_node
def errors_of_reads_are_chunks_if_asked_for(node):
    with Client(node).go(structured=True) as client:
        client.request(READ, 1 << 20, 512)
        flags, kind, payload = client.chunk()
        words = b'beyond the end of the volume'
        assert (flags, kind, payload) == (1, 0x8001, struct.pack('>IH', EINVAL, len(words)) + words)
        client.request(READ, 512, 512)
        flags, kind, payload = client.chunk()
        assert (flags, kind, payload) == (1, 2, struct.pack('>QI', 512, 512))


DATA, HOLE, DF = 1, 2, 4


def pieces(client, cookies):
    """By cookie: (type, offset, length, data) of each chunk, up to the last."""
    told, left = {cookie: [] for cookie in cookies}, set(cookies)
    while left:
        magic, flags, kind, cookie, length = struct.unpack('>IHHQI', client.take(20))
        assert magic == 0x668e33ef and cookie in left, (hex(magic), cookie)
        payload = client.take(length)
        at, = struct.unpack_from('>Q', payload)
        hole_len = struct.unpack_from('>I', payload, 8)[0] if kind == HOLE else 0
        data = bytes(hole_len) if kind == HOLE else payload[8:]
        told[cookie].append((kind, at, len(data), data))
        left -= {cookie} if flags & 1 else set()
    return told


@on_node
def zeroes_are_told_as_holes(node):
    kib, whole = 1 << 10, 1 << 20
    volume = bytearray(whole)
    with Client(node).go(structured=True) as client:
        # 60 KiB of zeroes between data are too few; the rest of a 4 KiB unit belongs to its data.
        for at, octets in ((128 * kib, b'a' * 4096), (192 * kib, b'b'), (960 * kib, b'c' * 65536)):
            client.request(WRITE, at, len(octets), data=octets)
            assert client.answer() == (0, b'')
            volume[at:at + len(octets)] = octets
        client.request(READ, 0, whole)
        told = pieces(client, [7])[7]
        assert [(kind, at // kib, length // kib) for kind, at, length, _ in told] == [
            (HOLE, 0, 128), (DATA, 128, 68), (HOLE, 196, 764), (DATA, 960, 64)], told
        assert b''.join(data for *_, data in told) == volume
        client.request(READ, 0, whole, DF)
        assert pieces(client, [7])[7] == [(DATA, 0, whole, volume)]
        client.request(READ, 256 * kib, 4096, DF)
        assert pieces(client, [7])[7] == [(HOLE, 256 * kib, 4096, bytes(4096))]
        client.request(READ, 130 * kib, 4096)  # its zeroes are not all of it
        assert [piece[0] for piece in pieces(client, [7])[7]] == [DATA]


@on_node
def chunks_of_several_reads_do_not_mix(node):
    volume = b''.join((bytes([1 + i]) * (8 << 10)).ljust(128 << 10, b'\0') for i in range(8))
    with Client(node).go(structured=True) as client:
        client.request(WRITE, 0, len(volume), data=volume)
        assert client.answer() == (0, b'')
        for cookie in range(32):  # nobody reads meanwhile: some are sent in part
            client.request(READ, 4096 * cookie, 800 << 10, cookie=cookie)
        for cookie, told in pieces(client, range(32)).items():
            assert len(told) > 8
            at = 4096 * cookie
            for _, offset, length, data in told:
                assert offset == at and data == volume[at:at + length], (cookie, at, offset)
                at += length
            assert at == 4096 * cookie + (800 << 10)


PAYLOAD, REQ_ONE = 1 << 5, 1 << 3


def extended(node, *queries, name=b''):
    """A client that has extended headers, and contexts if it wants them."""
    client = Client(node)
    client.agree(EXTEND)
    if queries:
        assert client.set_context(*queries, name=name)[-1] == ACK
    return client.go(name)


def is_refused(client, error, offset=0, cookie=7):
    flags, kind, payload = client.hear(offset, cookie)
    number, words = struct.unpack_from('>IH', payload)
    return (flags, kind, number, words) == (1, 0x8001, error, len(payload) - 6) and words > 0


@on_node
def extended_headers_are_agreed_on_before_go(node):
    with Client(node) as client:
        client.option(EXTEND, b'x')
        assert client.reply(EXTEND)[0] == INVALID
        client.agree(STRUCTURE)  # which it takes the place of
        client.agree(EXTEND)
        client.option(STRUCTURE)
        assert client.reply(STRUCTURE)[0] == MUST_EXTEND
        client.go()
        assert client.flags & 1 << 7 and not client.flags & 1 << 12  # DF; no context was chosen
    with extended(node, b'base:allocation') as client:
        assert client.flags & 1 << 12  # a query may name its contexts
    with Client(node) as client:
        client.agree(EXTEND)
        client.option(EXPORT_NAME, b'ram')
        assert client.is_ended()


@on_node
def every_answer_has_the_extended_header(node):
    data = bytes(range(1, 129)) * 32
    with extended(node) as client:
        client.ask(WRITE, 4096, 4096, PAYLOAD, cookie=1, data=data)
        assert client.hear(4096, 1) == (1, 0, b'')
        client.ask(WRITE, 4096, 128 << 10, PAYLOAD, cookie=2, data=data * 32)  # longer than a push
        assert client.hear(4096, 2) == (1, 0, b'')
        client.ask(READ, 4096, 4096, cookie=3)
        assert client.hear(4096, 3) == (1, DATA, struct.pack('>Q', 4096) + data)
        client.ask(READ, 0, 256 << 10, cookie=4)  # each chunk names where the request began
        assert client.hear(0, 4) == (0, DATA, struct.pack('>Q', 0) + bytes(4096) + data * 32)
        assert client.hear(0, 4) == (1, HOLE, struct.pack('>QI', 132 << 10, 124 << 10))
        for command in (TRIM, ZEROES, CACHE):
            client.ask(command, 0, 512)
            assert client.hear() == (1, 0, b'')
        client.ask(FLUSH)
        assert client.hear() == (1, 0, b'')
        client.ask(DISCONNECT)
        assert client.is_ended()


@on_node
def extended_requests_without_sense_are_answered_and_no_more(node):
    with extended(node, b'base:allocation') as client:
        whole, most = 1 << 20, (1 << 64) - 1
        for command, offset, length, flags, data, error in (
                (WRITE, 0, 512, 0, b'', EINVAL),  # no data follow
                (WRITE, 0, 0, PAYLOAD, b'', EINVAL), (WRITE, 0, 0, 0, b'', EINVAL),
                (READ, 0, 5, PAYLOAD, b'12345', EINVAL), (99, 0, 5, PAYLOAD, b'12345', EINVAL),
                (FLUSH, 0, 70000, PAYLOAD, bytes(70000), EINVAL),
                (WRITE, whole, 5, PAYLOAD, b'12345', ENOSPC),
                (READ, 0, (64 << 20) + 1, 0, b'', EOVERFLOW), (READ, 0, most, 0, b'', EOVERFLOW),
                (READ, most, 512, 0, b'', EINVAL), (TRIM, 512, most, 0, b'', EINVAL),
                (ZEROES, 512, most, 0, b'', ENOSPC), (ZEROES, most, most, 0, b'', ENOSPC),
                (CACHE, 0, most, 0, b'', EINVAL), (STATUS, 0, most, 0, b'', EINVAL),
                (STATUS, 0, 1 << 33, 0, b'', EINVAL), (STATUS, 0, 0, 0, b'', EINVAL)):
            client.ask(command, offset, length, flags, data=data)
            assert is_refused(client, error, offset), (command, offset, length)
    for header in (struct.pack('>IHHQQI', REQUEST, 0, READ, 7, 0, 512) + bytes(4),
                   struct.pack('>IHHQQQ', 0x21e41c71, PAYLOAD, WRITE, 7, 0, (64 << 20) + 1),
                   struct.pack('>IHHQQQ', 0x21e41c71, PAYLOAD, STATUS, 7, 0, 1 << 40)):
        with extended(node) as client:
            client.put(header)
            assert client.is_ended()
    with Client(node).go(structured=True) as client:  # the flag is for who has agreed
        client.request(READ, 0, 512, PAYLOAD)
        assert client.chunk()[2][:4] == struct.pack('>I', EINVAL)


@case
def extended_requests_are_of_64_bits():
    """One zeroes, one trims, one asks for the extents of more than 4 GiB."""
    with folder() as place:
        path = place / 'disk'
        with open(path, 'wb') as file:
            file.truncate(6 << 30)
            file.seek(5 << 30)
            file.write(b'x' * 4096)
        with Node(path) as node, extended(node, b'base:allocation') as client:
            flags, kind, payload = client.ask(STATUS, 0, 6 << 30) or client.hear()
            end = (6 << 30) - (5 << 30) - 4096
            assert (flags, kind, payload) == (1, 6, struct.pack(
                '>II6Q', 1, 3, 5 << 30, 3, 4096, 0, end, 3)), payload.hex()
            client.ask(STATUS, 4096, 5 << 30, REQ_ONE)
            assert client.hear(4096)[2] == struct.pack('>IIQQ', 1, 1, (5 << 30) - 4096, 3)
            client.ask(TRIM, 0, 5 << 30)
            assert client.hear() == (1, 0, b'')
            client.ask(ZEROES, 512, (6 << 30) - 512)
            assert client.hear(512) == (1, 0, b'')
            client.ask(READ, 5 << 30, 4096)
            assert client.hear(5 << 30) == (1, HOLE, struct.pack('>QI', 5 << 30, 4096))


@on_node
def a_query_may_name_the_context_that_it_wants(node):
    told = struct.pack('>IIQQ', 1, 1, 4096, 3)
    with extended(node, b'base:allocation') as client:
        client.ask(STATUS, 0, 12, PAYLOAD, data=struct.pack('>QI', 4096, 1))
        assert client.hear() == (1, 6, told)
        for data in (struct.pack('>QI', 4096, 2), struct.pack('>QII', 4096, 1, 1),
                     struct.pack('>Q', 4096), b'x', struct.pack('>QI', 0, 1), bytes(70000),
                     struct.pack('>QI', (1 << 20) + 1, 1), struct.pack('>QI', 1 << 40, 1)):
            client.ask(STATUS, 0, len(data), PAYLOAD, data=data)
            assert is_refused(client, EINVAL), data[:16]
        client.ask(STATUS, 0, 4096)
        assert client.hear() == (1, 6, told)
    with extended(node) as client:  # who has chosen none
        client.ask(STATUS, 0, 12, PAYLOAD, data=struct.pack('>QI', 4096, 1))
        assert is_refused(client, EINVAL)


@on_node
def many_requests_in_one_go_are_all_answered(node):
    with Client(node).go() as client:
        requests = b''.join(struct.pack('>IHHQQI', REQUEST, 0, WRITE, cookie, cookie * 512, 512) +
                            bytes([cookie % 251]) * 512 for cookie in range(1000))
        client.put(requests)
        seen = {struct.unpack('>IIQ', client.take(16))[1:] for _ in range(1000)}
        assert seen == {(0, cookie) for cookie in range(1000)}
        client.request(READ, 999 * 512, 512)
        assert client.answer(512) == (0, bytes([999 % 251]) * 512)


@on_node
def one_octet_at_a_time_is_enough(node):
    with Client(node) as client:
        name = struct.pack('>QII', OPTION, GO, 6) + struct.pack('>IH', 0, 0)
        request = struct.pack('>IHHQQI', REQUEST, 0, WRITE, 7, 3, 4) + b'weft'
        for octet in name:
            client.put(bytes([octet]))
        while client.reply(GO)[0] != ACK:
            pass
        for octet in request:
            client.put(bytes([octet]))
        assert client.answer() == (0, b'')
        client.request(READ, 0, 8)
        assert client.answer(8) == (0, b'\0\0\0weft\0')


@on_node
def a_client_that_dies_amid_a_write_changes_nothing(node):
    with Client(node).go() as client:
        client.request(WRITE, 0, 4096, data=b'x' * 1000)
    with Client(node).go() as client:
        client.request(READ, 0, 4096)
        assert client.answer(4096) == (0, bytes(4096))


@on_node
def a_client_that_dies_before_its_answers_leaves_nothing_behind(node):
    for _ in range(20):
        with Client(node).go() as client:
            for cookie in range(64):
                client.request(READ, 0, 1 << 19, cookie=cookie)

    def settled():
        found = node.status()
        return found['connections'] == 0 and found['pool_taken'] == 0
    until(settled)


@on_node
def a_goodbye_ends_the_connection(node):
    with Client(node).go() as client:
        client.request(DISCONNECT)
        assert client.is_ended()
    with Client(node) as client:
        client.option(ABORT)
        assert client.reply(ABORT)[0] == ACK and client.is_ended()


@case
def a_goodbye_comes_behind_the_answers_to_what_is_under_way():
    with Node('delay+ram:1M?delay=100ms') as node, Client(node).go(structured=True) as client:
        client.request(WRITE, 0, 4096, cookie=1, data=b'x' * 4096)
        client.request(READ, 4096, 4096, cookie=2)
        client.request(FLUSH, cookie=3)
        client.request(DISCONNECT)
        client.request(WRITE, 0, 4096, cookie=4, data=b'y' * 4096)  # nobody listens any more
        said = set()
        while len(said) < 3:
            magic, = struct.unpack('>I', client.take(4))
            error_or_kind, cookie = struct.unpack('>IQ', client.take(12))
            if magic == STRUCTURED:
                client.take(*struct.unpack('>I', client.take(4)))
            assert magic == STRUCTURED or error_or_kind == 0
            said.add(cookie)
        assert said == {1, 2, 3} and client.is_ended()
        with Client(node).go() as other:
            other.request(READ, 0, 4096)
            assert other.answer(4096) == (0, b'x' * 4096)


@case
def what_is_under_way_is_answered_when_the_node_stops():
    with Node('delay+ram:1M?delay.write=1s') as node, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(node).go()) for _ in range(4)]
        idle = stack.enter_context(Client(node).go())
        for client in clients:
            for cookie in range(32):
                client.request(WRITE, cookie << 12, 4096, cookie=cookie, data=bytes(4096))
        until(lambda: node.status()['rtas'][0]['in_flight'] == 128)
        clients[0].request(WRITE, 0, 128 << 10, cookie=32, data=bytes(1000))
        node.process.send_signal(signal.SIGTERM)
        assert idle.is_ended()
        clients[0].put(bytes((128 << 10) - 1000))
        for client in clients:
            count = 33 if client is clients[0] else 32
            said = [struct.unpack('>IIQ', client.take(16)) for _ in range(count)]
            assert sorted(said) == [(SIMPLE, 0, cookie) for cookie in range(count)]
            assert client.is_ended()
        assert node.process.wait(20) == 0


@case
def a_read_only_volume_says_so_to_each_change():
    with Node('--read-only', 'ram:1M') as node, Client(node).go() as client:
        for command, data in ((WRITE, b'x' * 512), (ZEROES, b''), (TRIM, b'')):
            client.request(command, 0, 512, data=data)
            assert client.answer()[0] == EPERM, command


@case
def the_list_has_every_volume():
    with Node('a=ram:1M', 'b=null:1M') as node, Client(node) as client:
        client.option(LIST)
        names = []
        while True:
            kind, data = client.reply(LIST)
            if kind == ACK:
                break
            names.append(data[4:])
        assert names == [b'a', b'b']


main()
