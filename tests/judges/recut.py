"""A capture written anew, with one FPDU to a TCP segment, for tshark to read.

tshark's dissector looks for an FPDU where a segment begins. The kernel's TCP cuts and joins as it
sees fit, most of all on a busy machine: then FPDUs go uncounted, or, where there are markers, are
counted twice (two FPDUs in one segment are enough). So the streams are put together here by their
sequence numbers, whatever was sent again or came out of order, and are cut where FPDUs end. No
octet is changed: what tshark says of headers and CRCs, it says of what was on the wire.
"""

import dataclasses
import struct

LINK_ETHERNET, LINK_RAW = 1, 101
ETHERNET_LEN, IP_LEN, TCP_LEN = 14, 20, 20
SEGMENT_MAX_LEN = 60000  # what an IPv4 packet holds; only the first one of an FPDU matters
SYN, PUSH_ACK = 0x02, 0x18
MARKER_INTERVAL, MARKER_LEN = 512, 4
FRAME_LEN = 20  # of an MPA Request or Reply without its private data


class Incomplete(Exception):
    """The capture lacks octets of a stream that were sent."""


@dataclasses.dataclass
class Segment:
    time: bytes   # of the capture's record, as it stands there
    ends: tuple   # (source address, source port, destination address, destination port)
    seq: int
    flags: int
    octets: bytes


def segments(capture):
    """The TCP segments over IPv4 of a capture file, in its order; a record cut short ends it."""
    content = capture.read_bytes()
    link, = struct.unpack_from('<I', content, 20)
    at = 24
    while at + 16 <= len(content):
        captured, = struct.unpack_from('<I', content, at + 8)
        packet = content[at + 16:at + 16 + captured]
        if len(packet) < captured:
            return
        segment = parse(packet[ETHERNET_LEN if link == LINK_ETHERNET else 0:])
        if segment:
            yield Segment(content[at:at + 8], *segment)
        at += 16 + captured


def parse(packet):
    """(ends, sequence number, flags, octets) of an IPv4 packet with TCP in it; None of another."""
    if len(packet) < IP_LEN + TCP_LEN or packet[0] >> 4 != 4 or packet[9] != 6:
        return None
    ip_len = (packet[0] & 15) * 4
    total_len = struct.unpack_from('>H', packet, 2)[0] or len(packet)
    source, destination, seq = struct.unpack_from('>HHI', packet, ip_len)
    tcp_len = (packet[ip_len + 12] >> 4) * 4
    return ((packet[12:16], source, packet[16:20], destination), seq, packet[ip_len + 13],
            packet[ip_len + tcp_len:total_len])


class Stream:
    """One direction of a connection: octets in order, units cut off as they become whole."""

    def __init__(self, syn):
        self.ends = syn.ends
        self.start = syn.seq + 1
        self.cut = 0          # octets in units so far
        self.full_start = 0   # where full operation begins; 0: not yet
        self.has_markers = False
        self.octets = bytearray()
        self.early = {}       # offset in the stream: octets beyond a hole

    def add(self, segment):
        offset = (segment.seq - self.start) & 0xffffffff
        if offset < 1 << 31 and segment.octets:
            self.early[offset] = max(segment.octets, self.early.get(offset, b''), key=len)
        for offset in sorted(self.early):
            if offset > len(self.octets):
                break
            self.octets += self.early.pop(offset)[len(self.octets) - offset:]

    def units(self):
        """What has become whole: (sequence number, octets) of a start-up frame or an FPDU each."""
        while True:
            end = self.fpdu_end() if self.full_start else self.frame_end()
            if end is None or end > len(self.octets):
                return
            if not self.full_start:
                self.full_start = end
            yield (self.start + self.cut) & 0xffffffff, bytes(self.octets[self.cut:end])
            self.cut = end

    def frame_end(self):
        if len(self.octets) < FRAME_LEN:
            return None
        if not self.octets.startswith(b'MPA ID Re'):
            raise ValueError(f'{self.ends} does not begin with an MPA start-up frame')
        return FRAME_LEN + struct.unpack_from('>H', self.octets, 18)[0]

    def fpdu_end(self):
        """Behind the FPDU that begins at `cut`; RFC 5044 sections 4.1 and 4.3."""
        if len(self.octets) < self.full_start + 2:
            return None
        # No ULPDU is empty, so two zeroes there begin the marker that points to its own FPDU.
        self.has_markers = self.octets[self.full_start:self.full_start + 2] == b'\0\0'
        length = self.unmarked(self.cut, 2)
        if len(length) < 2:
            return None
        ulpdu_len, = struct.unpack('>H', length)
        return self.behind(self.cut, (2 + ulpdu_len + 3) // 4 * 4 + 4)

    def behind(self, at, count):
        """Where `count` octets end that begin at `at`, markers not counted."""
        if not self.has_markers:
            return at + count
        room = MARKER_INTERVAL - MARKER_LEN
        in_interval = (at - self.full_start) % MARKER_INTERVAL
        before = max(0, in_interval - MARKER_LEN)  # of this interval's room, used already
        whole, rest = divmod(before + count - 1, room)
        return at - in_interval + whole * MARKER_INTERVAL + MARKER_LEN + rest + 1

    def unmarked(self, at, count):
        """`count` octets from `at` on, fewer where they have not come yet, without the markers."""
        places = [self.behind(at, n + 1) - 1 for n in range(count)]
        return bytes(self.octets[place] for place in places if place < len(self.octets))


def recut(capture, path, ports):
    """Writes into `path` the connections of `capture` that have one of these ports as an end.

    Raises Incomplete where the capture has lost octets.
    """
    streams = {}
    with path.open('wb') as out:
        out.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, LINK_RAW))
        for segment in segments(capture):
            if segment.ends[1] not in ports and segment.ends[3] not in ports:
                continue
            if segment.flags & SYN:
                streams.setdefault(segment.ends, Stream(segment))
                write(out, segment, segment.seq, segment.flags, b'')
            elif segment.octets and segment.ends not in streams:
                raise Incomplete(f'the beginning of {segment.ends}')
            elif segment.octets:
                stream = streams[segment.ends]
                stream.add(segment)
                for seq, octets in stream.units():
                    write_unit(out, segment, seq, octets)
    for stream in streams.values():
        if stream.early:
            raise Incomplete(f'octets of {stream.ends} before {min(stream.early)}')


def write_unit(out, segment, seq, octets):
    for at in range(0, len(octets), SEGMENT_MAX_LEN):
        write(out, segment, (seq + at) & 0xffffffff, PUSH_ACK, octets[at:at + SEGMENT_MAX_LEN])


def write(out, segment, seq, flags, octets):
    source, source_port, destination, destination_port = segment.ends
    packet = struct.pack('>BBHHHBBH4s4s', 0x45, 0, IP_LEN + TCP_LEN + len(octets), 0, 0, 64, 6, 0,
                         source, destination)
    packet += struct.pack('>HHIIBBHHH', source_port, destination_port, seq, 0, TCP_LEN << 2, flags,
                          0xffff, 0, 0) + octets
    out.write(segment.time + struct.pack('<II', len(packet), len(packet)) + packet)
