"""An NVMe/TCP host, octet by octet, for tests: PDUs, digests, commands."""

import contextlib
import socket
import struct

IC_REQ, IC_RESP, H2C_TERM, C2H_TERM, CMD, RESP, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
HDGST, DDGST, LAST, SUCCESS = 1, 2, 4, 8
FABRICS, PROPERTY_SET, CONNECT, PROPERTY_GET = 0x7f, 0, 1, 4
GET_LOG, IDENTIFY, ABORT, SET_FEATURES, GET_FEATURES, AER, KEEP_ALIVE = 2, 6, 8, 9, 10, 12, 24
FLUSH, WRITE, READ, ZEROES, DSM, VERIFY, COPY = 0, 1, 2, 8, 9, 12, 25
CAP, VS, CC, CSTS = 0, 8, 0x14, 0x1c
ENABLE = 1 | 6 << 16 | 4 << 20
DISCOVERY = 'nqn.2014-08.org.nvmexpress.discovery'
DNR, MORE = 1 << 14, 1 << 13
FUA, DEALLOCATE = 1 << 14, 1 << 9


def crc32c_table():
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82f63b78 if number & 1 else 0)
        yield number


TABLE = list(crc32c_table())


def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc = crc >> 8 ^ TABLE[(crc ^ octet) & 0xff]
    return struct.pack('<I', crc ^ 0xffffffff)


class Answer:
    """A response, and the data that came before it."""

    def __init__(self, cqe, data=b''):
        self.result, self.sqhd, self.sqid, self.cid, status = struct.unpack('<QHHHH', cqe)
        self.status = status >> 1 & ~(DNR | MORE)
        self.is_final = bool(status >> 1 & DNR)
        self.data = data


def sgl(kind, address=0, length=0):
    return struct.pack('<QIBBBB', address, length, 0, 0, 0, kind)


def in_capsule(length, offset=0):
    return sgl(0x01, offset, length)


def transport(length):
    return sgl(0x5a, 0, length)


def sqe(opcode, cid=0, nsid=0, where=bytes(16), tail=b'', flags=0x40):
    """`tail`: from CDW10 on."""
    return struct.pack('<BBHI16x', opcode, flags, cid, nsid) + where + tail.ljust(24, b'\0')


def rw(opcode, block, count, where, control=0, cid=0, nsid=1):
    return sqe(opcode, cid, nsid, where, struct.pack('<QHH', block, (count - 1) & 0xffff, control))


class Queue:
    """One connection: a queue once `connect` has been called."""

    def __init__(self, address, digests=0, align=0, ready=True, source='127.0.0.1'):
        self.socket = socket.create_connection(address, timeout=30, source_address=(source, 0))
        self.digests, self.align = digests, align
        self.cid = 100
        self.is_on = False
        if ready:
            self.put(self.ic_req())
            kind, header, _ = self.take()
            assert kind == IC_RESP and header[11] == digests, (kind, header)
            self.data_max, = struct.unpack_from('<I', header, 12)
            self.is_on = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ic_req(self, version=0, digests=None):
        digests = self.digests if digests is None else digests
        return struct.pack('<BBBBIHBBI112x', IC_REQ, 0, 128, 0, 128, version, self.align, digests,
                           0)

    def put(self, octets):
        self.socket.sendall(octets)

    def receive(self, count):
        octets = bytearray()
        while len(octets) < count:
            part = self.socket.recv(count - len(octets))
            assert part, f'the node ended the connection after {len(octets)} of {count} octets'
            octets += part
        return bytes(octets)

    def is_ended(self):
        try:
            return self.socket.recv(1) == b''
        except ConnectionResetError:
            return True

    def pdu(self, kind, header, data=b'', flags=0, bad=0):
        """`header`: behind the common one. `bad`: HDGST or DDGST spoils that digest."""
        length = 8 + len(header)
        has_header = self.is_on and self.digests & 1
        has_data = self.is_on and self.digests & 2 and data
        offset = length + (4 if has_header else 0)
        whole = offset + len(data) + (4 if has_data else 0)
        flags |= (HDGST if has_header else 0) | (DDGST if has_data else 0)
        octets = struct.pack('<BBBBI', kind, flags, length, offset if data else 0, whole) + header
        if has_header:
            octets += bytes(4) if bad & HDGST else crc32c(octets)
        octets += data
        if has_data:
            octets += b'bad!' if bad & DDGST else crc32c(data)
        return octets

    def take(self):
        """(type, header, data) of the next PDU, its digests checked."""
        common = self.receive(8)
        kind, flags, length, offset, whole = struct.unpack('<BBBBI', common)
        header = common + self.receive(length - 8)
        rest = self.receive(whole - length)
        if flags & HDGST:
            assert rest[:4] == crc32c(header)
        has_digest = self.is_on and self.digests & 1 and kind != C2H_TERM
        assert bool(flags & HDGST) == bool(has_digest)
        data = b''
        if offset:
            assert offset % (4 * (self.align + 1)) == 0
            data = rest[offset - length:len(rest) - (4 if flags & DDGST else 0)]
            assert not flags & DDGST or rest[-4:] == crc32c(data)
            assert kind == C2H_TERM or bool(flags & DDGST) == bool(self.digests & 2)
        elif kind == C2H_TERM:
            data = rest
        self.flags = flags
        return kind, header, data

    def term(self):
        """(status, information, the header shown) of the node's last word."""
        kind, header, shown = self.take()
        assert kind == C2H_TERM, kind
        assert self.is_ended()
        return *struct.unpack_from('<HI', header, 8), shown

    def capsule(self, entry, data=b'', **options):
        self.put(self.pdu(CMD, entry, data, **options))

    def give(self, header, data, **options):
        """H2CData for an R2T."""
        cid, tag, offset, length = struct.unpack_from('<HHII', header, 8)
        assert (offset, length) == (0, len(data))
        self.put(self.h2c(cid, tag, 0, data, **options))

    def h2c(self, cid, tag, offset, data, flags=LAST, **options):
        return self.pdu(H2C_DATA, struct.pack('<HHIII', cid, tag, offset, len(data), 0), data,
                        flags=flags, **options)

    def answer(self, data=b'', **options):
        """The response; data are given when asked for, and those that come are kept."""
        come = bytearray()
        while True:
            kind, header, part = self.take()
            if kind == RESP:
                return Answer(header[8:], bytes(come))
            if kind == R2T:
                self.give(header, data, **options)
            elif kind == C2H_DATA:
                cid, offset, length = struct.unpack_from('<H2xII', header, 8)
                assert offset == len(come) and length == len(part)
                come += part
                if self.flags & SUCCESS:
                    assert self.flags & LAST
                    return Answer(struct.pack('<QHHHH', 0, 0xffff, 0, cid, 0), bytes(come))
            else:
                raise AssertionError(f'PDU {kind}: {header}')

    def ask(self, entry, data=b'', pull=b'', **options):
        self.capsule(entry, data, **options)
        return self.answer(pull)

    def next_cid(self):
        self.cid += 1
        return self.cid

    def connect(self, nqn, host='nqn.2026-11.test:host', qid=0, size=32, cntlid=0xffff, kato=0,
                attributes=0, hostid=b'H' * 16, form=0, where=None):
        data = hostid + struct.pack('<H', cntlid)
        data = data.ljust(256, b'\0') + nqn.encode().ljust(256, b'\0')
        data += host.encode().ljust(256, b'\0') + bytes(256)
        tail = struct.pack('<HHHBBI', form, qid, size - 1, attributes, 0, kato)
        entry = bytearray(sqe(FABRICS, 1, CONNECT, where or in_capsule(1024), tail))
        return self.ask(bytes(entry), data)

    def get(self, offset, size=0):
        return self.ask(sqe(FABRICS, 2, PROPERTY_GET,
                            tail=struct.pack('<B3xI', size, offset)))

    def set(self, offset, value):
        return self.ask(sqe(FABRICS, 3, PROPERTY_SET,
                            tail=struct.pack('<B3xIQ', 0, offset, value)))

    def identify(self, cns, nsid=0, length=4096):
        return self.ask(sqe(IDENTIFY, 4, nsid, transport(length), struct.pack('<I', cns)))

    def log(self, page, length, offset=0, keep=0, nsid=0):
        dwords = length // 4 - 1
        tail = struct.pack('<BBHHHQ', page, keep << 7, dwords & 0xffff, dwords >> 16, 0, offset)
        return self.ask(sqe(GET_LOG, 5, nsid, transport(length), tail))

    def feature(self, number, value, nsid=0):
        return self.ask(sqe(SET_FEATURES, 6, nsid, tail=struct.pack('<II', number, value)))

    def read(self, block, count, size=512):
        return self.ask(rw(READ, block, count, transport(count * size)))

    def write(self, block, data, size=512, control=0):
        entry = rw(WRITE, block, len(data) // size, transport(len(data)), control)
        return self.ask(entry, pull=data)


@contextlib.contextmanager
def session(address, nqn, queues=1, kato=0, digests=0, attributes=0, source='127.0.0.1',
            **options):
    """A controller that is enabled: its admin queue, then I/O queues."""
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(Queue(address, digests, source=source))
        said = admin.connect(nqn, kato=kato, attributes=attributes, **options)
        assert said.status == 0, hex(said.status)
        cntlid = said.result & 0xffff
        assert admin.set(CC, ENABLE).status == 0 and admin.get(CSTS).result & 1
        if queues:
            assert admin.feature(7, queues - 1 | queues - 1 << 16).status == 0
        opened = [admin]
        for qid in range(1, queues + 1):
            queue = stack.enter_context(Queue(address, digests, source=source))
            said = queue.connect(nqn, qid=qid, size=128, cntlid=cntlid, attributes=attributes,
                                 **options)
            assert said.status == 0, hex(said.status)
            opened.append(queue)
        yield opened
