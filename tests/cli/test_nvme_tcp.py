#!/usr/bin/env python3
"""weft discover, ls, info, cp and attach over NVMe/TCP: at weft's node, and at one whose PDUs are
changed on their way."""

import contextlib
import ctypes
import pathlib
import re
import socket
import struct
import subprocess
import threading

from cases import BUILD, WEFT, case, expect, expect_error, free_port, main, scratch, weft
from nodes import SIZE, Node, octets, report

IC_RESP, TERM, RESPONSE, H2C_DATA, DATA, R2T = 1, 3, 5, 6, 7, 9
ADMIN, IO = 0, 1  # connections in the order in which they are made


class TcpNode(Node):
    def __init__(self, folder, *words):
        self.port = free_port()
        self.process = subprocess.Popen(
            [WEFT, 'serve', f'--nvme-tcp=127.0.0.1:{self.port}', *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@contextlib.contextmanager
def node(*words):
    """A node with the file disk.img of 3 MiB; .uri is its volume."""
    with scratch() as folder:
        disk = pathlib.Path(folder, 'disk.img')
        disk.write_bytes(octets(SIZE))
        ours = TcpNode(folder, *words, f'a={disk}')
        try:
            ours.folder, ours.disk = pathlib.Path(folder), disk
            ours.uri = ours.read(3)[1].strip()
            yield ours
        finally:
            ours.end()


# --- at a node ------------------------------------------------------------------------------------


@case
def what_is_there_is_found_and_shown():
    with node() as ours:
        target = f'nvme+tcp://127.0.0.1:{ours.port}'
        found = report(weft('discover', '--json', target))
        assert [entry['transport'] for entry in found] == ['tcp'], found
        listed = report(weft('ls', '--json', target))
        assert [each['uri'] for each in listed] == [f'{ours.uri}/1'], listed
        assert listed == report(weft('ls', '--json', ours.uri)), listed
        shown = report(weft('info', '--json', ours.uri))
        assert shown['size'] == SIZE and not shown['controller']['oneshot'], shown
        said = weft('info', ours.uri)
        expect(said, 0, None)
        assert re.search('data +TCP\n', said.stdout), said.stdout


@case
def what_is_copied_there_comes_back():
    with node() as ours:
        there, back = ours.folder / 'there', ours.folder / 'back'
        there.write_bytes(octets(SIZE - 1))
        out = report(weft('cp', '--json', '--verify', there, ours.uri))
        assert out['octets'] == SIZE - 1 and out['destination']['errors'] == 0, out
        assert ours.disk.read_bytes()[:SIZE - 1] == there.read_bytes()
        for depth in (1, 8, 128):
            report(weft('cp', '--json', f'--depth={depth}', ours.uri, back))
            assert back.read_bytes() == ours.disk.read_bytes()


@case
def short_pieces_go_with_the_command():
    with node() as ours:
        there = ours.folder / 'there'
        there.write_bytes(octets(4096))
        out = report(weft('cp', '--json', there, ours.uri))
        assert out['destination']['in_capsules'] == 1, out
        assert ours.disk.read_bytes()[:4096] == there.read_bytes()


@case
def zeroes_are_told():
    with node() as ours:
        there = ours.folder / 'there'
        there.write_bytes(bytes(1 << 20))
        out = report(weft('cp', '--json', '--sparse', '--verify', there, ours.uri))
        assert out['zeroes'] == 1 << 20 and out['destination']['octets_written'] == 0, out


@case
def attach_makes_it_a_disk_for_programs_of_nbd():
    with node() as ours:
        copy = ours.folder / 'copy'
        said = weft('attach', '--quiet', f'--run=nbdcopy "$uri" {copy}', ours.uri)
        assert said.returncode == 0, said
        assert copy.read_bytes() == ours.disk.read_bytes()


@case
def a_subsystem_that_is_not_there_is_named():
    with node() as ours:
        expect_error(weft('info', ours.uri.replace('uuid', 'other')), 1, 'has no subsystem')
    expect_error(weft('ls', 'nvme+tcp://127.0.0.1:1'), 1, '127.0.0.1:1: Connection refused')


# --- digests --------------------------------------------------------------------------------------


class Attr(ctypes.Structure):
    _fields_ = [('address', ctypes.c_void_p), ('host_nqn', ctypes.c_char_p),
                ('host_id', ctypes.c_uint8 * 16), ('queue_count', ctypes.c_uint),
                ('depth', ctypes.c_uint), ('flags', ctypes.c_uint),
                ('keep_alive_ms', ctypes.c_uint), ('timeout_ms', ctypes.c_uint)]


def identified_with_digests(uri, timeout_ms=0):
    """Whether the library connects with both digests and identifies namespace 1; what it says."""
    library = ctypes.CDLL(str(BUILD / 'lib/initiator/libweft-nvme.so.1'))
    why, address = ctypes.create_string_buffer(320), ctypes.create_string_buffer(4096)
    handle, namespace = ctypes.c_void_p(), ctypes.create_string_buffer(256)
    assert library.weft_nvme_address_parse(uri.encode(), address, why) == 0, why.value
    attr = Attr(address=ctypes.addressof(address), flags=4 | 8, timeout_ms=timeout_ms)
    result = library.weft_nvme_connect(ctypes.byref(attr), ctypes.byref(handle), why)
    if result == 0:
        result = library.weft_nvme_identify(handle, 1, namespace, why)
        library.weft_nvme_disconnect(handle)
    return result == 0, why.value.decode()


@case
def digests_are_agreed_on_and_right():
    with node() as ours, relay(ours.port, count_digests) as port:
        count_digests.seen = 0
        fine, why = identified_with_digests(ours.uri.replace(str(ours.port), str(port), 1))
        assert fine, why
        assert count_digests.seen > 10, count_digests.seen


@case
def a_wrong_digest_of_a_header_ends_the_connection():
    with node() as ours, relay(ours.port, spoil(RESPONSE, ADMIN, 24)) as port:
        fine, why = identified_with_digests(ours.uri.replace(str(ours.port), str(port), 1))
        assert not fine and 'the digest of a header is wrong' in why, why


@case
def a_wrong_digest_of_data_fails_the_command():
    with node() as ours, relay(ours.port, spoil(DATA, ADMIN, -1)) as port:
        fine, why = identified_with_digests(ours.uri.replace(str(ours.port), str(port), 1))
        assert not fine and 'with: Transport Error' in why, why


# --- targets that do not keep to the protocol -----------------------------------------------------


@contextlib.contextmanager
def relay(port, change, sent=None):
    """Between a client and a node: what `change(connection, pdu)` makes of PDUs to the client; None
    ends the connection. Its port. `sent` gets what the client sends, by connection."""
    def take(source, length):
        data = b''
        while len(data) < length:
            more = source.recv(length - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def to_client(number, client, server):
        with contextlib.suppress(OSError):
            while True:
                head = take(server, 8)
                pdu = change(number, bytearray(head + take(server, struct.unpack('<I', head[4:])[0]
                                                           - 8)))
                if pdu is None:
                    break
                client.sendall(pdu)
        for each in client, server:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def to_server(number, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if sent is not None:
                    sent[number] = sent.get(number, b'') + data
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def run():
        number = 0
        with contextlib.suppress(OSError):
            while True:
                client = listener.accept()[0]
                server = socket.create_connection(('127.0.0.1', port))
                for job in to_client, to_server:
                    threading.Thread(target=job, args=(number, client, server), daemon=True).start()
                number += 1

    with socket.create_server(('127.0.0.1', 0)) as listener:
        threading.Thread(target=run, daemon=True).start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def count_digests(_, pdu):
    if pdu[0] != IC_RESP:
        assert pdu[1] & 1 and (pdu[0] != DATA or pdu[1] & 2), pdu[:24]
        count_digests.seen += 1
    return pdu


def spoil(kind, number, at):
    def change(connection, pdu):
        if pdu[0] == kind and connection == number:
            pdu[at] ^= 1
        return pdu
    return change


def put(kind, offset, form, value):
    """Such PDUs of the I/O queue have this there."""
    def change(connection, pdu):
        if pdu[0] == kind and connection == IO:
            struct.pack_into(form, pdu, offset, value)
        return pdu
    return change


def read_says(change, *said):
    """A copy from the volume fails, with these words, and nothing is left of a wrong octet."""
    with node() as ours, relay(ours.port, change) as port:
        uri = ours.uri.replace(str(ours.port), str(port), 1)
        expect_error(weft('cp', uri, ours.folder / 'copy'), 1, *said)


def write_says(change, *said):
    with node() as ours, relay(ours.port, change) as port:
        source = ours.folder / 'source'
        source.write_bytes(octets(SIZE))
        uri = ours.uri.replace(str(ours.port), str(port), 1)
        expect_error(weft('cp', source, uri), 1, *said)


@case
def data_at_another_place_than_the_next_are_refused():
    read_says(put(DATA, 12, '<I', 512), 'not copied', 'it sends octets 512 and ')


@case
def more_data_than_were_asked_for_are_refused():
    def change(connection, pdu):
        if pdu[0] == DATA and connection == IO:
            pdu += bytes(1 << 20)
            struct.pack_into('<I', pdu, 4, len(pdu))
            struct.pack_into('<I', pdu, 16, len(pdu) - 24)
        return pdu
    read_says(change, 'not copied', 'it sends octets 0 and ')


@case
def data_of_another_length_than_their_pdu_are_refused():
    read_says(put(DATA, 16, '<I', 4096), 'it sends octets 0 and 4096 more')


@case
def data_of_no_command_are_refused():
    read_says(put(DATA, 8, '<H', 0xffff), 'it sends data that nobody asked for')


@case
def an_answer_before_all_data_is_refused():
    def change(connection, pdu):
        if pdu[0] == DATA and connection == IO:
            cqe = bytes(12) + pdu[8:10] + bytes(2)
            return struct.pack('<BBBBI', RESPONSE, 0, 24, 0, 24) + cqe
        return pdu
    read_says(change, 'octets after 0')


@case
def a_pdu_of_no_known_type_is_refused():
    read_says(put(DATA, 0, '<B', 0x42), 'a PDU of type 0x42')
    read_says(put(DATA, 0, '<B', 0x06), 'a PDU of type 0x6')  # a host's own


@case
def lengths_that_cannot_be_are_refused():
    read_says(put(DATA, 4, '<I', 8), 'a PDU of type 7 has 8 octets')
    read_says(put(DATA, 3, '<B', 8), 'its data at 8')
    read_says(put(DATA, 2, '<B', 72), 'with a header of 72 octets')
    read_says(put(RESPONSE, 4, '<I', 0xffffffff), 'a PDU of type 5 has 4294967295 octets')


@case
def digests_that_were_not_agreed_on_are_refused():
    read_says(put(RESPONSE, 1, '<B', 1), 'a header digest, or none, against what was agreed')
    read_says(put(DATA, 1, '<B', 2), 'a data digest, or none, against what was agreed')


@case
def asking_for_what_the_command_has_not_is_refused():
    write_says(put(R2T, 16, '<I', 0x7fffffff), 'it asks for octets 0 and 2147483647 more')
    write_says(put(R2T, 12, '<I', 4096), 'it asks for octets 4096 and')
    write_says(put(R2T, 16, '<I', 0), 'it asks for octets 0 and 0 more')
    write_says(put(R2T, 8, '<H', 0xffff), 'it asks for data of no command')


@case
def an_answer_to_nothing_is_counted_and_helps_nobody():
    # The data's own answer then never comes, and the volume is of no more use.
    def change(connection, pdu):
        return pdu + pdu if pdu[0] == RESPONSE and connection == IO else pdu
    with node() as ours, relay(ours.port, change) as port:
        uri = ours.uri.replace(str(ours.port), str(port), 1)
        out = report(weft('cp', '--json', uri, ours.folder / 'copy'))
        assert (ours.folder / 'copy').read_bytes() == ours.disk.read_bytes()
        assert out['source']['strange'] > 0, out


@case
def a_target_that_ends_the_connection_is_told_of_with_its_reason():
    def change(connection, pdu):
        if pdu[0] == DATA and connection == IO:
            return struct.pack('<BBBBIHI', TERM, 0, 24, 0, 32, 4, 0) + bytes(18)
        return pdu
    read_says(change, 'the target ends the connection: data out of range')
    read_says(lambda connection, pdu: None if connection == IO and pdu[0] == DATA else pdu,
              'the target ended the connection')


@case
def who_is_no_target_is_told():
    for change in (lambda connection, pdu: None, lambda connection, pdu: pdu[:8] + bytes(8 * 15),
                   lambda connection, pdu: bytes(128)):
        with node() as ours, relay(ours.port, change) as port:
            said = weft('info', ours.uri.replace(str(ours.port), str(port), 1))
            expect_error(said, 1, 'cannot use the volume', f'127.0.0.1:{port}')


def answers_with(offset, form, value):
    def change(_, pdu):
        if pdu[0] == IC_RESP:
            struct.pack_into(form, pdu, offset, value)
        return pdu
    return change


@case
def an_ic_resp_that_cannot_be_is_no_target_s():
    for offset, form, value in ((0, '<B', TERM), (2, '<B', 64), (4, '<I', 136), (8, '<H', 1),
                                (10, '<B', 32), (11, '<B', 1), (12, '<I', 4095)):
        with node() as ours, relay(ours.port, answers_with(offset, form, value)) as port:
            said = weft('info', ours.uri.replace(str(ours.port), str(port), 1))
            expect_error(said, 1, f'127.0.0.1:{port} answers, but not as an NVMe/TCP target')


@case
def how_a_target_wants_its_data_is_how_it_gets_them():
    def wishes(_, pdu):
        if pdu[0] == IC_RESP:
            struct.pack_into('<B', pdu, 10, 31)  # at multiples of 128 octets
            struct.pack_into('<I', pdu, 12, 4096)
        return pdu
    sent = {}
    with node() as ours, relay(ours.port, wishes, sent) as port:
        source = ours.folder / 'source'
        source.write_bytes(octets(SIZE))
        report(weft('cp', '--json', source, ours.uri.replace(str(ours.port), str(port), 1)))
        assert ours.disk.read_bytes() == source.read_bytes()
    lengths, stream = [], max(sent.values(), key=len)
    while stream:
        _, _, _, begin, length = struct.unpack_from('<BBBBI', stream)
        if stream[0] == H2C_DATA:
            lengths.append(length - begin)
            assert begin == 128, begin
        stream = stream[length:]
    assert set(lengths) == {4096} and sum(lengths) == SIZE, lengths


@case
def a_target_that_says_nothing_is_not_waited_for_for_ever():
    with socket.create_server(('127.0.0.1', 0)) as silent:
        port = silent.getsockname()[1]
        fine, why = identified_with_digests(f'nvme+tcp://127.0.0.1:{port}/nqn.2024-01.org.a/1', 100)
        assert not fine and f'127.0.0.1:{port} did not answer in time' in why, why


main()
