#!/usr/bin/env python3
"""A judge of the wire: tshark dissects what two weft processes said to each other.

Once from the captures that weft writes itself (`weft run --pcap=FILE`, each end its own), once from
tcpdump's on the loopback device. FPDUs with a good CRC must be as many in each direction as weft
counted, and nothing may be malformed.
"""

import contextlib
import functools
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import judge
import recut
import wire
from judge import PERFTEST_RACE, WEFT, Case, Local, count, perftest_check, run_case


def rping(name, env=None, pings=count(50, 1000)):
    words = ['rping', '-a', '{addr}', '-p', '{port}', '-C', pings, '-S', 9001, '-V']
    return Case(f'rping, {name}', [*words, '-c'], [*words, '-s'], env=env or {})


def perftest(program):
    words = [program, '-R', '-F', '-p', '{port}', '-s', 65536, '-n', count(50, 1000)]
    return Case(program, [*words, '{addr}'], words, perftest_check([65536]), race=PERFTEST_RACE)


def cases():
    return [
        rping('as weft ends speak to each other'),
        rping('as weft speaks to other makes', {'WEFT_EXTENSIONS': 'off'}),
        # Not more of them, ever: tshark (4.0) loses an FPDU where a marker stands just before it,
        # of which RFC 5044 section 4.4 says that it counts into that FPDU's CRC.
        rping('with markers', {'WEFT_MARKERS': 'on'}, 50),
        perftest('ib_send_bw'),
        perftest('ib_write_bw'),
        perftest('ib_read_bw'),
    ]


def counted(path):
    return wire.weft_counts(path.read_text())


def faults_of(seen, client, server):
    """Differences between the wire and the counters (sent, received) of both ends."""
    faults = []
    to_server, to_client = seen.to_server, seen.to_client
    if seen.malformed:
        faults.append(f'{seen.malformed} malformed frames')
    for way, flow, sent, received in (('to the server', to_server, client[0], server[1]),
                                      ('to the client', to_client, server[0], client[1])):
        if not flow.good_crc or flow.bad_crc or flow.good_crc != flow.fpdus:
            faults.append(f'{way}: {flow.fpdus} FPDUs, {flow.good_crc} with a good CRC, '
                          f'{flow.bad_crc} with a bad one')
        if not flow.good_crc == sent == received:
            faults.append(f'{way}: {flow.good_crc} FPDUs with a good CRC on the wire, '
                          f'{sent} counted as sent, {received} as received')
    return faults


@contextlib.contextmanager
def tcpdump(path, port):
    """Captures this port's TCP on the loopback device while the body runs.

    tcpdump gives up its rights and could not open `path` then, so it gets it opened. The kernel
    hands packets over in blocks, and in their order: a connection attempt that nobody waits for,
    made behind the body, shows when everything before it has been written.
    """
    with open(path, 'wb') as file:
        process = subprocess.Popen(
            ['tcpdump', '-i', 'lo', '-s', '0', '-B', '65536', '-U', '-w', '-', f'tcp port {port}'],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if 'listening on' in line:
                break
        yield
        with socket.socket() as knock:
            knock.connect_ex(('127.0.0.1', port))
            wait_for_end(path, knock.getsockname()[1], process)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def wait_for_end(path, source_port, process):
    deadline = time.monotonic() + 60
    while not any(segment.ends[1] == source_port for segment in recut.segments(path)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f'tcpdump wrote nothing more into {path}')
        time.sleep(0.1)


def end_prefix(side, role, captures_by, link):
    """What stands before the program of one end, so that it leaves its counters and its capture."""
    options = [f'--link={link}']
    options += [f'--pcap={side.scratch}/{role}.pcap'] if captures_by == 'weft' else []
    return ['env', f'WEFT_STATS_FILE={side.scratch}/{role}.stats', WEFT, 'run', *options]


def judge_case(tap, case, captures_by, link, keep):
    """Runs the case with one kind of capture and compares."""
    case.name = f'{case.name}, captured by {captures_by}'
    with contextlib.ExitStack() as stack:
        side = stack.enter_context(Local('127.0.0.1'))
        client_end, server_end = (
            stack.enter_context(Local('127.0.0.1', end_prefix(side, role, captures_by, link)))
            for role in ('client', 'server'))
        if captures_by == 'tcpdump':
            case.around = functools.partial(tcpdump, side.scratch / 'lo.pcap')
        outcome = run_case(tap, case, server_end, client_end)
        if not outcome:
            return
        files = ['client.pcap', 'server.pcap']
        if captures_by == 'tcpdump':
            files = ['recut.pcap']
            recut.recut(side.scratch / 'lo.pcap', side.scratch / 'recut.pcap', [outcome.port])
        client, server = (counted(side.scratch / f'{role}.stats') for role in ('client', 'server'))
        for file in files:
            seen = wire.dissect(side.scratch / file, outcome.port)
            faults = faults_of(seen, client, server)
            tap.report(f'{case.name}: {file}', faults)
            if faults and keep:
                shutil.copytree(side.scratch, keep, dirs_exist_ok=True)


def main():
    os.environ['WEFT_LOCAL'] = 'off'  # what goes through memory of both ends is on no wire
    parser = judge.argument_parser(__doc__)
    parser.add_argument('--keep', type=pathlib.Path, metavar='FOLDER',
                        help='leave what the last case that failed left there')
    options = parser.parse_args()
    if not wire.has_tshark():
        judge.skip_all('no program tshark')
    with judge.weft_side():
        pass
    tap = judge.Tap()
    kinds = ['weft']
    if options.link != 'socket':
        pass  # the kernel sees no TCP
    elif os.geteuid() == 0 and shutil.which('tcpdump'):
        kinds.append('tcpdump')
    else:
        tap.skip('captures by tcpdump', 'needs root and the program tcpdump')
    for captures_by in kinds:
        for case in judge.chosen(options, cases):
            if 'markers' in case.name and not wire.tshark_knows_markers():
                tap.skip(f'{case.name}, captured by {captures_by}',
                         'this tshark loses its place at markers; version 4 does not')
            else:
                judge_case(tap, case, captures_by, options.link, options.keep)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
