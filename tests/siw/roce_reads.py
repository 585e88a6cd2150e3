"""RDMA READs in a capture of RoCEv2, and what of weft's read scheduler they show.

The source document's claims about InfiniBand nodes (docs/preemptible-reads.md), one function each:
what it returns are lines that say what is wrong. They see packets alone, and one end of them is
the kernel's.
"""

import collections
import struct

ROCE_PORT = 4791
READ_REQUEST, READ_ANSWERS = 0x0c, range(0x0d, 0x11)
PSNS = 1 << 24

Request = collections.namedtuple('Request', 'qp psn va length')


def packets(octets):
    """BTH and what is behind it, of each UDP datagram over IPv4 to RoCE's port, oldest first."""
    link, = struct.unpack_from('<I', octets, 20)
    ip_at = {1: 14, 101: 0, 113: 16, 228: 0, 276: 20}[link]
    at = 24
    while at + 16 <= len(octets):
        kept, = struct.unpack_from('<I', octets, at + 8)
        frame = octets[at + 16 + ip_at:at + 16 + kept]
        at += 16 + kept
        if len(frame) > 40 and frame[0] >> 4 == 4 and frame[9] == 17:
            udp = 4 * (frame[0] & 15)
            if struct.unpack_from('>H', frame, udp + 2)[0] == ROCE_PORT:
                yield frame[udp + 8:]


def look(octets):
    """(READ Requests in order, PSNs that were answered by queue pair and number of packets)"""
    requests, answered = [], collections.Counter()
    for packet in packets(octets):
        qp, psn = (value & PSNS - 1 for value in struct.unpack_from('>II', packet, 4))
        if packet[0] == READ_REQUEST:
            requests.append(Request(qp, psn, struct.unpack_from('>Q', packet, 12)[0],
                                    struct.unpack_from('>I', packet, 24)[0]))
        elif packet[0] in READ_ANSWERS:
            answered[psn] += 1
    return requests, answered


def goes_on(before, after):
    """Does this request ask for what comes behind the other?"""
    return before.qp == after.qp and before.va + before.length == after.va


def division_faults(requests, small_len, large_len, large_count, allotment_len):
    """Claims 9, 21: a program's Read, for the total, is a first request and subsidiary ones."""
    large = [request for request in requests if request.length != small_len]
    faults = [f'a request for {request.length} octets, where {allotment_len} are allotted'
              for request in large if request.length > allotment_len]
    starts = min(request.va for request in large) if large else 0
    firsts = sum(request.va == starts for request in large)
    if firsts < large_count:
        faults.append(f'{firsts} first requests of {large_count} Reads')
    if sum(request.length for request in large) < large_count * large_len:
        faults.append(f'{sum(request.length for request in large)} octets asked for')
    subsidiary = sum(goes_on(*pair) for pair in zip(large, large[1:]))
    if subsidiary < large_count * (large_len // allotment_len - 1):
        faults.append(f'{subsidiary} requests go on where the one before ended')
    return faults


def command_faults(requests, answered, mtu):
    """Claims 10, 22: each of them is an RDMA READ command with PSNs of its own, and answered so."""
    faults = []
    for request in requests:
        count = -(-request.length // mtu)
        missing = sum(not answered[(request.psn + i) % PSNS] for i in range(count))
        if missing:
            faults.append(f'{missing} of {count} packets of PSN {request.psn} never came')
    return faults[:5]


def preemption_faults(requests, small_len):
    """Claim 25: the context of a Read that is not complete is used for another command, and then
    for what goes on with it."""
    seen = 0
    large = None
    has_other_between = False
    for request in requests:
        if request.length == small_len:
            has_other_between = True
            continue
        seen += bool(large and has_other_between and goes_on(large, request))
        large, has_other_between = request, False
    return [] if seen > 10 else [f'{seen} times went another in between']
