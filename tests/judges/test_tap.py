#!/usr/bin/env python3
"""Judges over weft's own TCP as real IP packets: two processes, a tap device for each, alone and
beside the kernel's TCP for other peers; and over RoCE's packets as they are, a tap device for each,
and with weft on the kernel's UDP at the other end."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import judge
import tapnet
from judge import PERFTEST_RACE, WEFT, Case, Local, count, perftest_check

BAD_PATH = 'loss=1%,reorder=2%,duplicate=1%,reorder-delay=500us,seed=3'


def rping(what, faults=''):
    words = ['rping', '-a', '{addr}', '-p', '{port}', '-C', count(30, 1000), '-S', 30001, '-V']
    return Case(f'rping: {what}', [*words, '-c'], [*words, '-s'], env={'WEFT_FAULT': faults})


def perftest(program, size=65536, faults=''):
    words = [program, '-R', '-F', '-p', '{port}', '-s', size, '-n', count(100, 5000)]
    what = 'on a bad path' if faults else f'{size} octets'
    return Case(f'{program}: {what}', [*words, '{addr}'], words, perftest_check([size]),
                env={'WEFT_FAULT': faults}, race=PERFTEST_RACE)


def cases():
    yield rping('a good path')
    yield rping('a bad path', BAD_PATH)
    yield Case('ucmatose', ['ucmatose', '-s', '{addr}', '-p', '{port}', '-c', 10, '-C', 20],
               ['ucmatose', '-p', '{port}', '-c', 10, '-C', 20])
    for program in 'ib_write_bw', 'ib_read_bw', 'ib_send_bw':
        yield perftest(program)
        yield perftest(program, faults=BAD_PATH)
    yield perftest('ib_send_lat', 64)
    yield perftest('ib_write_lat', 64)


def cases_by_peer():
    yield rping('beside sockets, a good path')
    yield rping('beside sockets, a bad path', BAD_PATH)
    yield perftest('ib_write_bw', 4096)


# Each tenth packet of either direction, of those whose sender heeds marks, as a queue would.
MARKS = """
table ip marks {
    chain out {
        type filter hook output priority 0;
        ip ecn ect0 numgen inc mod 10 == 9 ip ecn set ce
    }
    chain in {
        type filter hook prerouting priority 0;
        ip ecn ect0 numgen inc mod 10 == 9 ip ecn set ce
    }
}
"""


def marks_cannot_be_set():
    """Why this machine cannot mark packets; '' if it can, and does so from now on."""
    if not Local.has('nft'):
        return 'no program nft'
    said = subprocess.run(['nft', '-f', '-'], input=MARKS, stderr=subprocess.PIPE, text=True)
    return f'nft: {said.stderr.strip().splitlines()[0]}' if said.returncode else ''


def kernel_counts(name):
    """A figure of the kernel's TCP in this namespace."""
    names, values = (line.split() for line in pathlib.Path('/proc/net/netstat').read_text()
                     .splitlines() if line.startswith('TcpExt:'))
    return int(dict(zip(names, values))[name])


def weft_counts(folder, name):
    """A figure of weft's TCP, of all programs that wrote their counters into the folder."""
    devices = [json.loads(line).get('weft0', {}) for path in pathlib.Path(folder).iterdir()
               for line in path.read_text().splitlines()]
    return sum(device.get('tcp_total', {}).get(name, 0) for device in devices)


def cases_marked(folder):
    """The peer is the kernel's TCP, which asks for ECN."""
    pathlib.Path('/proc/sys/net/ipv4/tcp_ecn').write_text('1')
    why_not = marks_cannot_be_set()

    def marked(program, has_heard, what):
        case = perftest(program)
        return dataclasses.replace(
            case, name=f'{program}: {what}', cannot_run=lambda: why_not,
            env={'WEFT_STATS_FILE': os.path.join(folder, '%p')},
            check=lambda outcome: case.check(outcome) or (
                None if has_heard() else 'marks were set, and the sender did not hear of them'))

    yield marked('ib_write_bw', lambda: kernel_counts('TCPDeliveredCE') > 0,
                 'the kernel hears of marks')
    yield marked('ib_read_bw', lambda: weft_counts(folder, 'reductions_by_marks') > 0,
                 'weft heeds marks that the kernel echoes')


def every_icrc_was_checked(folder):
    """Why not. None: packets came by each tap device, and all had a right ICRC."""
    links = [json.loads(line).get('weft_roce0', {}).get('packets', {})
             for path in pathlib.Path(folder).iterdir() for line in path.read_text().splitlines()]
    taps = [link for link in links if 'frames_in' in link]
    if not taps or any(link['packets_in'] == 0 or link['icrc_wrong'] for link in taps):
        return f'not every packet came with a right ICRC: {taps}'
    return None


def cases_roce(folder):
    def checked(case):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        return dataclasses.replace(
            case, env={**case.env, 'WEFT_STATS_FILE': os.path.join(folder, '%p')},
            check=lambda outcome: ((case.check(outcome) if case.check else None)
                                   or every_icrc_was_checked(folder)))

    yield checked(rping('RoCE'))
    yield rping('RoCE on a bad path', 'loss=1%,reorder=2%,duplicate=1%,seed=3')
    for program, size in ('ib_write_bw', 65536), ('ib_read_bw', 65536), ('ib_send_bw', 65536):
        case = perftest(program, size)
        yield checked(dataclasses.replace(case, name=f'{case.name} over RoCE'))


def main():
    options = judge.argument_parser(__doc__).parse_args()
    try:
        tapnet.enter_namespace()
    except tapnet.NotHere as why:
        judge.skip_all(str(why))
    tap = judge.Tap()
    with tapnet.TapSide(0) as server, tapnet.TapSide(1) as client:
        tapnet.route_between_all()
        judge.run_chosen(tap, judge.chosen(options, cases), server, client)
    with tapnet.TapSide(2, by_peer=True) as server, tapnet.TapSide(3, by_peer=True) as client:
        judge.run_chosen(tap, judge.chosen(options, cases_by_peer), server, client)
    with (tapnet.TapSide(4) as server, tempfile.TemporaryDirectory() as folder,
          Local('10.78.4.1', [WEFT, 'run', '--link=socket'], unprivileged=False) as client):
        marked = judge.chosen(options, lambda: cases_marked(folder))
        judge.run_chosen(tap, marked, server, client)
    with (tapnet.TapSide(5, roce=True) as server, tapnet.TapSide(6, roce=True) as client,
          tempfile.TemporaryDirectory() as folder):
        roce = judge.chosen(options, lambda: cases_roce(os.path.join(folder, 'counters')))
        judge.run_chosen(tap, roce, server, client)
    with (tapnet.TapSide(7, roce=True) as tap_side, tempfile.TemporaryDirectory() as folder,
          Local('10.78.7.1', [WEFT, 'run', '--wire=roce'], unprivileged=False) as socket_side):
        counters = os.path.join(folder, 'counters')
        for server, client in (tap_side, socket_side), (socket_side, tap_side):
            judge.run_chosen(tap, judge.chosen(options, lambda: cases_roce(counters)), server,
                             client)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
