"""An iSCSI initiator of few words, for what no real one would say (RFC 7143)."""

import socket
import struct

NOP_OUT, COMMAND, TASK, LOGIN, TEXT, DATA_OUT, LOGOUT, SNACK = 0, 1, 2, 3, 4, 5, 6, 0x10
NOP_IN, RESPONSE, TASK_RESPONSE, LOGIN_RESPONSE, TEXT_RESPONSE, DATA_IN, LOGOUT_RESPONSE = range(
    0x20, 0x27)
R2T, ASYNC, REJECT = 0x31, 0x32, 0x3f
READ, WRITE, FINAL = 0x40, 0x20, 0x80
NO_TAG = 0xffffffff
NAME = 'iqn.2026-11.invalid.judge:hostile'


def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.pack('<I', crc ^ 0xffffffff)


class Pdu:
    def __init__(self, header, data):
        self.header, self.data = header, data
        self.opcode, self.flags = header[0] & 0x3f, header[1]
        self.itt, self.ttt = struct.unpack_from('>II', header, 16)
        self.status = header[3]

    def word(self, offset):
        return struct.unpack_from('>I', self.header, offset)[0]

    @property
    def sense(self):
        """Key, additional code, its qualifier."""
        return self.data[4] & 0xf, self.data[14], self.data[15]


class Initiator:
    """A connection; logged in with `login`."""

    def __init__(self, address, limit=10):
        self.socket = socket.create_connection(address, timeout=limit)
        self.cmdsn, self.itt = 1, 0
        self.has_digests = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, opcode, flags, itt=0, data=b'', fields=b'', lun=0, data_len=None):
        """`fields` are octets 20 to 48."""
        header = struct.pack('>BBHIQI', opcode, flags, 0,
                             len(data) if data_len is None else data_len, lun,
                             itt) + fields.ljust(28, b'\0')
        if self.has_digests:
            header += crc32c(header)
        padded = data + bytes(-len(data) % 4)
        if self.has_digests and data:
            padded += crc32c(padded)
        self.socket.sendall(header + padded)

    def octets(self, count):
        got = b''
        while len(got) < count:
            more = self.socket.recv(count - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def receive(self):
        header = self.octets(48)
        if self.has_digests:
            assert self.octets(4) == crc32c(header)
        count = int.from_bytes(header[5:8], 'big')
        data = self.octets(count + -count % 4)
        if self.has_digests and data:
            assert self.octets(4) == crc32c(data)
        return Pdu(header, data[:count])

    def is_closed(self):
        try:
            while True:
                self.receive()
        except (EOFError, ConnectionError):
            return True

    # ---- login

    def login_send(self, flags, keys, isid=b'\x80weft0', tsih=0, version=0, data=None):
        if data is None:
            data = b''.join(f'{key}={value}\0'.encode() for key, value in keys)
        header = bytes([0x40 | LOGIN, flags, version, version, 0]) + len(data).to_bytes(3, 'big')
        header += isid + struct.pack('>HIHHII', tsih, 1, 0, 0, self.cmdsn, 1)
        self.socket.sendall(header.ljust(48, b'\0') + data + bytes(-len(data) % 4))

    def login(self, target, *keys, isid=b'\x80weft0'):
        who = [('InitiatorName', NAME), ('SessionType', 'Normal' if target else 'Discovery')]
        who += [('TargetName', target)] if target else []
        self.login_send(0x87, who + list(keys), isid)
        said = self.receive()
        assert said.opcode == LOGIN_RESPONSE, said.opcode
        status, = struct.unpack_from('>H', said.header, 36)
        if status == 0:
            assert said.flags == 0x87, said.flags
            agreed = dict(pair.decode().split('=', 1) for pair in said.data.split(b'\0') if pair)
            self.has_digests = agreed.get('HeaderDigest') == agreed.get('DataDigest') == 'CRC32C'
            return agreed
        return status

    # ---- commands

    def number(self, immediate=False):
        number = self.cmdsn
        self.cmdsn += not immediate
        return number

    def command(self, cdb, expected=0, direction=0, data=b'', final=True, immediate=False,
                cmdsn=None, lun=0):
        """Sends it; its tag. `lun`: a number, or 64 bits as on the wire."""
        self.itt += 1
        cmdsn = self.number(immediate) if cmdsn is None else cmdsn
        fields = struct.pack('>III', expected, cmdsn, 0) + bytes(cdb).ljust(16, b'\0')
        self.send(COMMAND | (0x40 if immediate else 0), (FINAL if final else 0) | direction,
                  self.itt, data, fields, lun << 48 if lun < 256 else lun)
        return self.itt

    def data_out(self, itt, ttt, offset, data, datasn=0, final=True):
        self.send(DATA_OUT, FINAL if final else 0, itt, data,
                  struct.pack('>IIIIII', ttt, 0, 0, 0, datasn, offset))

    def ask(self, *words, **options):
        self.command(*words, **options)
        return self.receive()

    def ready(self, lun=0):
        """What the unit has to tell has been told."""
        while self.ask([0], lun=lun).status != 0:
            pass
        return self

    def read(self, block, count, lun=0):
        said = self.ask([0x28, 0, *block.to_bytes(4, 'big'), 0, *count.to_bytes(2, 'big')],
                        count * 512, READ, lun=lun)
        assert said.opcode == DATA_IN and said.status == 0, said.opcode
        return said.data

    def write_begin(self, block, count, **options):
        return self.command([0x2a, 0, *block.to_bytes(4, 'big'), 0, *count.to_bytes(2, 'big')],
                            count * 512, WRITE, **options)
