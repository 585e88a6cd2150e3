"""What tshark makes of a capture: FPDUs and their CRCs per direction, Terminates, complaints."""

import collections
import dataclasses
import functools
import json
import re
import shutil
import subprocess


@dataclasses.dataclass
class Flow:
    """One direction of the connections to or from one port."""

    fpdus: int = 0
    good_crc: int = 0
    bad_crc: int = 0
    crc_flags: set = dataclasses.field(default_factory=set)  # of its MPA start-up frames
    opcodes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    terminates: list = dataclasses.field(default_factory=list)  # (layer, error type, code)
    reads: list = dataclasses.field(default_factory=list)  # octets that a Read Request asks for


@dataclasses.dataclass
class Wire:
    to_server: Flow
    to_client: Flow
    malformed: int


def tshark_knows_markers():
    """The dissector of Wireshark 3 loses its place at MPA markers."""
    said = subprocess.run(['tshark', '--version'], capture_output=True, text=True).stdout
    found = re.search(r'(\d+)\.\d+\.\d+', said)
    return found is not None and int(found[1]) >= 4


def has_tshark():
    return shutil.which('tshark') is not None


@functools.cache
def tshark_words():
    """tshark without the dissectors that claim what is not theirs: by a port, or by a guess."""
    table = subprocess.run(['tshark', '-G', 'heuristic-decodes'], capture_output=True, text=True,
                           check=True).stdout
    guesses = {line.split()[1] for line in table.splitlines()
               if line.split()[0] in ('tcp', 'iwarp_ddp_rdmap')} - {'iwarp_mpa'}
    return ['tshark', '-o', 'tcp.try_heuristic_first:TRUE',
            *(word for name in sorted(guesses) for word in ('--disable-protocol', name))]


def dissect(capture, port, port_count=1):
    """The connections to a server's port, or to as many ports from there on, in a capture file."""
    ports = range(port, port + port_count)
    text = tshark(capture, ports)
    wire = Wire(Flow(), Flow(), 0)
    flow = None
    for line in text.splitlines():
        ends = re.match(r'Transmission Control Protocol, Src Port: (\d+), Dst Port: (\d+)', line)
        if ends:
            flow = wire.to_server if int(ends[2]) in ports else wire.to_client
        elif 'Malformed' in line:
            wire.malformed += 1
        elif flow:
            read_line(flow, line.strip())
    return wire


def tshark(capture, ports):
    """What tshark prints of what it takes for iWARP, or for malformed, on these TCP ports."""
    return subprocess.run(
        [*tshark_words(), '-r', capture, '-O', 'iwarp_mpa,iwarp_ddp_rdmap',
         '-Y', f'tcp.port in {{{ports[0]}..{ports[-1]}}} && (iwarp_mpa || _ws.malformed)'],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout


def weft_counts(stats):
    """FPDUs sent and received, from what WEFT_STATS_FILE holds at exit: a line for each device."""
    counters, = (one for one in map(json.loads, stats.splitlines()) if 'weft0' in one)
    # What a closed connection counted is in the totals already.
    alive = [each for each in counters['connections'] if each['state'] != 'closed']
    return tuple(counters['weft0'][f'mpa_{way}_total']['fpdus']
                 + sum(connection[f'mpa_{way}']['fpdus'] for connection in alive)
                 for way in ('out', 'in'))


def read_line(flow, line):
    """One line of tshark's tree, of the FPDU or start-up frame that the flow is at."""
    if line.startswith('ULPDU length:'):
        flow.fpdus += 1
    elif line.startswith('CRC check:') or line.startswith('CRC:'):
        flow.good_crc += 'Good CRC32' in line
        flow.bad_crc += 'Bad CRC32' in line
    elif 'CRC flag:' in line:
        flow.crc_flags.add(line.endswith(': True') or line.endswith(': Set'))
    elif 'OpCode:' in line:
        known = re.search(r'0x(\w+)', line)
        flow.opcodes[int(known[1], 16) if known else line] += 1
    elif line.startswith('RDMA Read Message Size:'):
        flow.reads.append(int(re.search(r': (\d+)', line)[1]))
    elif '= Layer:' in line:
        flow.terminates.append([number(line)])
    elif '= Error Types' in line or line.startswith('Error Code'):
        flow.terminates[-1].append(number(line))


def number(line):
    return int(re.search(r'0x(\w+)\)?$', line)[1], 16)
