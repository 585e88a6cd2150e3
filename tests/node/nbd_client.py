"""An NBD client, octet by octet, for tests."""

import socket
import struct

MAGIC, OPTION, REPLY = 0x4e42444d41474943, 0x49484156454f5054, 0x3e889045565a9
REQUEST, SIMPLE, STRUCTURED = 0x25609513, 0x67446698, 0x668e33ef
EXTENDED_REQUEST, EXTENDED_REPLY = 0x21e41c71, 0x6e8a278c
EXPORT_NAME, ABORT, LIST, STARTTLS, INFO, GO, STRUCTURE, SET_CONTEXT = 1, 2, 3, 5, 6, 7, 8, 10
EXTEND = 11
ACK, SERVER, INFORMATION, CONTEXT = 1, 2, 3, 4
UNSUPPORTED, INVALID, UNKNOWN, TOO_BIG, MUST_EXTEND = (1 << 31 | code
                                                       for code in (1, 3, 6, 9, 10))
READ, WRITE, DISCONNECT, FLUSH, TRIM, CACHE, ZEROES, STATUS = 0, 1, 2, 3, 4, 5, 6, 7
EPERM, EINVAL, ENOSPC, EOVERFLOW = 1, 22, 28, 75


class Client:
    """One connection, octet by octet."""

    def __init__(self, node, flags=3):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(node.socket))
        magic, option, self.flags = struct.unpack('>QQH', self.take(18))
        assert (magic, option, self.flags) == (MAGIC, OPTION, 3)
        self.put(struct.pack('>I', flags))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def put(self, octets):
        self.socket.sendall(octets)

    def take(self, count):
        octets, at = bytearray(count), 0
        while at < count:
            part = self.socket.recv_into(memoryview(octets)[at:])
            assert part, f'the server ended the connection after {at} of {count} octets'
            at += part
        return bytes(octets)

    def is_ended(self):
        return is_ended(self.socket)

    def option(self, number, data=b''):
        self.put(struct.pack('>QII', OPTION, number, len(data)) + data)

    def reply(self, number):
        """(type, data) of one reply."""
        magic, option, kind, length = struct.unpack('>QIII', self.take(20))
        assert (magic, option) == (REPLY, number)
        return kind, self.take(length)

    def set_context(self, *queries, name=b''):
        """The types of the replies."""
        self.option(SET_CONTEXT, struct.pack('>I', len(name)) + name +
                    struct.pack('>I', len(queries)) +
                    b''.join(struct.pack('>I', len(query)) + query for query in queries))
        kinds = []
        while not kinds or kinds[-1] == CONTEXT:
            kinds.append(self.reply(SET_CONTEXT)[0])
        return kinds

    def agree(self, number):
        self.option(number)
        assert self.reply(number) == (ACK, b'')

    def go(self, name=b'', structured=False):
        if structured:
            self.agree(STRUCTURE)
        self.option(GO, struct.pack('>I', len(name)) + name + struct.pack('>H', 0))
        while True:
            kind, data = self.reply(GO)
            if kind != INFORMATION:
                assert kind == ACK, (hex(kind), data)
                return self
            if data[:2] == b'\0\0':
                self.size, self.flags = struct.unpack('>QH', data[2:])

    def request(self, command, offset=0, length=0, flags=0, cookie=7, data=b''):
        self.put(struct.pack('>IHHQQI', REQUEST, flags, command, cookie, offset, length) + data)

    def answer(self, data_len=0, cookie=7):
        """(error, data) of a simple reply."""
        magic, error, got = struct.unpack('>IIQ', self.take(16))
        assert (magic, got) == (SIMPLE, cookie)
        return error, self.take(data_len if error == 0 else 0)

    def chunk(self, cookie=7):
        """(flags, type, payload) of a structured reply."""
        magic, flags, kind, got, length = struct.unpack('>IHHQI', self.take(20))
        assert (magic, got) == (STRUCTURED, cookie)
        return flags, kind, self.take(length)

    def ask(self, command, offset=0, length=0, flags=0, cookie=7, data=b''):
        """A request with an extended header; with data behind it if `flags` say so."""
        self.put(struct.pack('>IHHQQQ', EXTENDED_REQUEST, flags, command, cookie, offset, length) +
                 data)

    def hear(self, offset=0, cookie=7):
        """(flags, type, payload) of an extended reply to a request at `offset`."""
        magic, flags, kind, got, at, length = struct.unpack('>IHHQQQ', self.take(32))
        assert (magic, got, at) == (EXTENDED_REPLY, cookie, offset), (hex(magic), got, at)
        return flags, kind, self.take(length)


def silent_nbd(node):
    """A connection whose client says nothing."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(node.socket))
    client.settimeout(20)
    return client


def is_ended(client):
    try:
        return client.recv(100) == b''
    except ConnectionResetError:
        return True
