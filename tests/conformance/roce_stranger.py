"""A host that speaks RoCEv2 behind a TUN device.

Its packets are made by the figures of the InfiniBand Architecture Specification, volume 1, chapters
9, 12 and 13 and annexes A11 and A17, with an ICRC of its own over both families of IP; nothing of
weft's.
"""

import fcntl
import ipaddress
import os
import select
import struct
import zlib

PORT = 4791
UD_SEND_ONLY, RC_SEND_ONLY, RC_ACKNOWLEDGE = 0x64, 0x04, 0x11
GSI, GSI_QKEY, P_KEY = 1, 0x80010000, 0xffff
REQ, MRA, REJ, REP, RTU, DREQ, DREP = range(0x10, 0x17)
MAD_LEN, MAD_DATA = 256, 24
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
PATIENCE_S = 20


def icrc(ip, udp, rest):
    """A17.3.3: CRC-32 over eight octets of ones, and the packet with ones where routers write."""
    ip, udp, rest = bytearray(ip), bytearray(udp), bytearray(rest)
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff  # TOS, TTL, checksum
    else:
        ip[0] |= 0x0f  # traffic class and flow label
        ip[1] = ip[2] = ip[3] = 0xff
        ip[7] = 0xff  # hop limit
    udp[6] = udp[7] = 0xff
    rest[4] = 0xff  # BECN, FECN and what is reserved beside
    return struct.pack('<I', zlib.crc32(b'\xff' * 8 + ip + udp + rest))


def checksum(octets):
    total = sum(struct.unpack(f'>{len(octets) // 2}H', octets))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Packet:
    """One that weft has sent, with the ICRC that it has to have."""

    def __init__(self, octets):
        header_len = 20 if octets[0] >> 4 == 4 else 40
        ip, udp = octets[:header_len], octets[header_len:header_len + 8]
        self.rest, self.icrc = octets[header_len + 8:-4], octets[-4:]
        self.source = octets[12:16] if header_len == 20 else octets[8:24]
        self.is_right = self.icrc == icrc(ip, udp, self.rest)
        self.opcode = self.rest[0]
        self.dest_qp = int.from_bytes(self.rest[5:8], 'big')
        self.psn = int.from_bytes(self.rest[9:12], 'big')
        self.mad = self.rest[20:] if self.dest_qp == GSI else b''

    def attribute(self):
        return int.from_bytes(self.mad[16:18], 'big')

    def word(self, offset):
        return int.from_bytes(self.mad[MAD_DATA + offset:MAD_DATA + offset + 4], 'big')

    def data(self, offset, length):
        return self.mad[MAD_DATA + offset:MAD_DATA + offset + length]


class Stranger:
    """The host at `own`, whose peer is this machine at `peer`, by the device `name`."""

    def __init__(self, name, own, peer):
        self.own, self.peer = ipaddress.ip_address(own), ipaddress.ip_address(peer)
        self.fd = os.open('/dev/net/tun', os.O_RDWR)
        fcntl.ioctl(self.fd, TUNSETIFF, struct.pack('16sH', name.encode(), IFF_TUN | IFF_NO_PI))
        self.identification = 0x4000

    def mapped(self, address):
        return address.packed if address.version == 6 else b'\0' * 10 + b'\xff\xff' + address.packed

    def say(self, rest, icrc_change=0):
        """BTH and all behind it, padded."""
        length = 8 + len(rest) + 4
        udp = struct.pack('>HHHH', 0xc0de, PORT, length, 0)
        if self.own.version == 4:
            self.identification += 1
            ip = bytearray(struct.pack('>BBHHHBBH', 0x45, 0, 20 + length, self.identification,
                                       0x4000, 64, 17, 0) + self.own.packed + self.peer.packed)
            ip[10:12] = struct.pack('>H', checksum(bytes(ip)))
        else:
            ip = (struct.pack('>IHBB', 0x60000000, length, 17, 64) +
                  self.own.packed + self.peer.packed)
        trailer = bytearray(icrc(ip, udp, rest))
        trailer[0] ^= icrc_change
        os.write(self.fd, bytes(ip) + udp + rest + bytes(trailer))

    def say_mad(self, attribute, transaction, data, **how):
        """`data`: octets by their offsets in the MAD's data."""
        mad = bytearray(MAD_LEN)
        mad[:4] = 1, 7, 2, 3  # base version, communication management, its version, Send
        mad[8:16], mad[16:18] = transaction, attribute.to_bytes(2, 'big')
        for offset, octets in data.items():
            mad[MAD_DATA + offset:MAD_DATA + offset + len(octets)] = octets
        bth = struct.pack('>BBHII', UD_SEND_ONLY, 0, P_KEY, GSI, 0)
        self.say(bth + struct.pack('>II', GSI_QKEY, GSI) + bytes(mad), **how)

    def say_ack(self, dest_qp, psn, msn):
        self.say(struct.pack('>BBHIII', RC_ACKNOWLEDGE, 0, P_KEY, dest_qp, psn, 0x1f << 24 | msn))

    def hear(self, wanted):
        """The next packet of RoCE's of which `wanted` is true."""
        while select.select([self.fd], [], [], PATIENCE_S)[0]:
            octets = os.read(self.fd, 65536)
            udp_at = 20 if octets[0] >> 4 == 4 else 40
            is_udp = octets[9 if udp_at == 20 else 6] == 17
            if is_udp and octets[udp_at + 2:udp_at + 4] == PORT.to_bytes(2, 'big'):
                packet = Packet(octets)
                assert packet.is_right, f'an ICRC of {packet.icrc.hex()} is wrong'
                if wanted(packet):
                    return packet
        raise AssertionError('nothing comes')

    def hear_mad(self, attribute):
        return self.hear(lambda packet: packet.dest_qp == GSI and packet.attribute() == attribute)

    def hear_nothing_else_until(self, attribute, unwanted):
        """The next of this kind, before which none of the other has come."""
        packet = self.hear(lambda p: p.dest_qp == GSI and p.attribute() in (attribute, unwanted))
        assert packet.attribute() == attribute, f'{unwanted:#x} before {attribute:#x}'
        return packet
