"""Many NBD clients in one process: each writes to a place of its own, reads it back and compares,
over and over. Small requests, one at a time of each; sockets without threads."""

import selectors
import socket
import struct
import time

OPTION, EXPORT_NAME = 0x49484156454f5054, 1
REQUEST, REPLY = 0x25609513, 0x67446698
READ, WRITE = 0, 1
BLOCK_LEN = 512


class Member:
    """One client: what it waits for, and what it does when that has come."""

    def __init__(self, number, volume):
        self.number = number
        self.volume = volume
        self.rounds = 0
        self.received = b''
        self.wanted = 18
        self.next = self.greeted
        self.socket = socket.socket(socket.AF_UNIX)

    def greeted(self, octets):
        assert octets[:8] == b'NBDMAGIC', octets
        name = self.volume.encode()
        self.socket.sendall(struct.pack('>IQII', 3, OPTION, EXPORT_NAME, len(name)) + name)
        return self.chosen, 10

    def chosen(self, _):
        return None, 0

    def pattern(self):
        return struct.pack('>II', self.number, self.rounds) * (BLOCK_LEN // 8)

    def request(self, command, data=b''):
        self.socket.sendall(struct.pack('>IHHQQI', REQUEST, 0, command, self.number,
                                        self.number * BLOCK_LEN, BLOCK_LEN) + data)

    def ask(self):
        self.request(WRITE, self.pattern())
        self.next, self.wanted = self.written, 16

    def check(self, reply):
        assert struct.unpack('>IIQ', reply) == (REPLY, 0, self.number), reply

    def written(self, octets):
        self.check(octets)
        self.request(READ)
        return self.read, 16 + BLOCK_LEN

    def read(self, octets):
        self.check(octets[:16])
        assert octets[16:] == self.pattern(), f'client {self.number}: round {self.rounds}'
        self.rounds += 1
        return None, 0

    def hear(self):
        """Takes what has come. True: it has done what it was asked for."""
        part = self.socket.recv(self.wanted - len(self.received))
        assert part, f'client {self.number} was cut off'
        self.received += part
        if len(self.received) == self.wanted:
            octets, self.received = self.received, b''
            self.next, self.wanted = self.next(octets)
        return self.next is None


class Crowd:
    """`count` clients of the node, spread over its volumes."""

    def __init__(self, node, count, volumes=('',), limit=60):
        self.limit = limit
        self.selector = selectors.DefaultSelector()
        self.members = []
        for number in range(count):
            member = Member(number, volumes[number % len(volumes)])
            member.socket.connect(str(node.socket))  # waits while the listener is busy
            member.socket.settimeout(limit)
            self.selector.register(member.socket, selectors.EVENT_READ, member)
            self.members.append(member)
        self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.selector.close()
        for member in self.members:
            member.socket.close()

    def wait(self):
        """Until each has what it waits for."""
        busy = {member for member in self.members if member.next is not None}
        deadline = time.monotonic() + self.limit
        while busy:
            for key, _ in self.selector.select(1):
                if key.data.hear():
                    busy.discard(key.data)
            assert time.monotonic() < deadline, \
                f'{len(busy)} of {len(self.members)} clients still wait after {self.limit} s'

    def ask(self):
        for member in self.members:
            member.ask()

    def round(self):
        """Each writes, reads, compares. The seconds it took."""
        begin = time.monotonic()
        self.ask()
        self.wait()
        return time.monotonic() - begin


__all__ = ['BLOCK_LEN', 'Crowd', 'Member']
