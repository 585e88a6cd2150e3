#!/usr/bin/env python3
"""weft and the Linux kernel's siw on one wire, each as client and as server.

    test_siw.py          weft on this machine, siw in a virtual machine (vm.py)
    test_siw.py --self   siw in weft's place too, in a second machine: shows that the cases and the
                         reading of the wire are sound, and needs no build of weft but of the
                         programs beside this file
        --only WORD      only the cases with this in their names
        --repeat N       each of them N times
        --link tap       weft's own TCP on a tap device
        --fault FAULTS   and its path bad in these ways, both ways: see WEFT_FAULT in weft(7)
        --keep FOLDER    leave the captures, consoles and counters there

One boot serves all cases. What they left on the wire is judged at the end, from QEMU's capture.
"""

import dataclasses
import os
import pathlib
import sys
from typing import Callable

import vm
import judge
import recut
import tapnet
import wire
from judge import (BUILD, PERFTEST_RACE, WEFT, Case, Local, Tap, count, perftest_check, run_case,
                   skip_all)

PROGRAMS = pathlib.Path(os.environ.get('WEFT_SIW_PROGRAMS', BUILD / 'tests/siw'))
EXAMPLES = pathlib.Path(os.environ.get('WEFT_EXAMPLES', BUILD / 'examples'))
CROWD_PROCESSES = 4
BLOCK_COMMANDS = 100
OPCODE_SEND, OPCODE_SEND_INVALIDATE = 3, 4
LARGE_READS, LARGE_READ_LEN, SMALL_READ_LEN = 4, 8 << 20, 4096  # of reads.c
# Terminate causes (layer, error type, code): RFC 5040 section 4.8.
DDP_TAGGED_INVALID_STAG, DDP_TAGGED_BOUNDS = (1, 1, 0), (1, 1, 1)
RDMAP_INVALID_STAG = (0, 1, 0)
# siw as initiator sends nothing by itself (no RTR), and the program lets its server write first.


@dataclasses.dataclass
class Sides:
    weft: object
    siw: object
    is_weft: bool  # False: --self
    faults: str = ''


@dataclasses.dataclass
class Meeting:
    """A case, who serves in it, and what must be seen on its wire."""

    case: Case
    weft_serves: bool
    on_wire: Callable[[wire.Wire], list] = lambda seen: []
    crc: bool = True
    port_count: int = 1
    ends_early: bool = False  # by an error of one end

    @property
    def name(self):
        return self.case.name


def own(program, *words):
    """The server's and the client's words of a program of this folder."""
    path = str(PROGRAMS / program)
    return ([path, 'server', '{addr}', '{port}', *words],
            [path, 'client', '{addr}', '{port}', *words])


# --- the cases ---------------------------------------------------------------------------------


def meetings(is_weft):
    """Every case, both ways round."""
    for weft_serves in (False, True):
        who = 'siw as client, weft as server' if weft_serves else 'weft as client, siw as server'
        for case, options in cases(weft_serves, is_weft):
            case.name = f'{who}: {case.name}'
            yield Meeting(case, weft_serves, **options)


def cases(weft_serves, is_weft):
    for size in (64, 4096, 65000):
        yield rping(size), {}
    yield rping(4096, {'WEFT_CRC': 'off'}, 'without CRC'), {'crc': False}
    # The emulated processor's clock calibration is not to be relied on: only weft's figures are.
    honest = is_weft and not weft_serves
    for verb in ('send', 'write', 'read'):
        for program, size in ((f'ib_{verb}_bw', 65536), (f'ib_{verb}_lat', 64)):
            yield perftest(program, size, count(50, 1000), honest), {}
    server, client = own('invalidate')
    yield (Case('Send with Invalidate revokes what was lent', client, server),
           {'on_wire': invalidation_seen, 'ends_early': True})
    for kind, cause in (('write-stag', DDP_TAGGED_INVALID_STAG),
                        ('write-bounds', DDP_TAGGED_BOUNDS), ('read-stag', RDMAP_INVALID_STAG)):
        server, client = own('terminate', kind)
        # siw does not tell its application of a read that it refused.
        deaf = kind == 'read-stag' and not (is_weft and weft_serves)
        yield (Case(f'an access that must be refused ({kind})', client, server, server_stays=deaf),
               {'on_wire': terminate_seen(cause, strict=is_weft and weft_serves),
                'ends_early': True})
    server, client = own('reads')
    yield (Case('small Reads pass large ones', client, server),
           {'on_wire': division_seen if is_weft and not weft_serves else lambda seen: []})
    yield blocks(weft_serves, is_weft), {'on_wire': closes_seen}
    yield (crowd(weft_serves, 100 if is_weft else 32),
           {'port_count': 1 if weft_serves else CROWD_PROCESSES})


def rping(size, env=None, what=''):
    words = ['rping', '-a', '{addr}', '-p', '{port}', '-C', 100, '-S', size, '-V']
    return Case(f'rping {what or f"of {size} octets"}', [*words, '-c'], [*words, '-s'],
                env=env or {})


def perftest(program, size, iterations, honest_clock):
    words = [program, '-R', '-F', '-p', '{port}', '-s', size, '-n', iterations]
    # The last Send of perftest fails on siw where the other end hangs up before siw has looked
    # after its completion.
    return Case(program, [*words, '{addr}'], words, perftest_check([size], honest_clock),
                race=f'{PERFTEST_RACE}|Failed to close connection between server and client')


def blocks(weft_serves, is_weft):
    """The block protocol of examples/: the memory of a command is taken back by the answer.

    weft as initiator posts each command with one call, and the STag travels in the message; as
    target it closes with the same call as between weft ends. siw invalidates regions.
    siw as target may take its last answer for failed: the initiator hangs up as soon as it has it,
    and siw looks after the completion later.
    """
    way = 'oneshot' if is_weft and not weft_serves else 'mr-inv'
    return Case('blocks, their memory taken back by the answer',
                [str(EXAMPLES / 'block-initiator'), '{addr}', '{port}', f'--way={way}',
                 f'--count={BLOCK_COMMANDS}', '--depth=4'],
                [str(EXAMPLES / 'block-target'), '{addr}', '{port}', '--once', '--disk=1'],
                race='' if weft_serves else 'a work request: local QP operation error')


def crowd(weft_serves, connections):
    """Many connections of one weft process, with four processes at siw's side.

    A process that uses siw runs out of what its driver can map after some 36 connections.
    """
    program = PROGRAMS / 'crowd'
    role, port = ('client', '{port}') if weft_serves else ('server', '$(({port} + k))')
    several = ['sh', '-c', f'for k in {" ".join(map(str, range(CROWD_PROCESSES)))}; do '
               f'{program} {role} {{addr}} {port} {connections // CROWD_PROCESSES} & '
               'jobs="$jobs $!"; done; for job in $jobs; do wait $job || exit 1; done']
    if weft_serves:
        client, server = several, [program, 'server', '{addr}', '{port}', connections]
    else:
        client = [program, 'client', '{addr}', '{port}', connections, CROWD_PROCESSES]
        server = several
    return Case(f'{connections} connections', client, server)


# --- the wire ----------------------------------------------------------------------------------


def invalidation_seen(seen):
    times = seen.to_client.opcodes[OPCODE_SEND_INVALIDATE]
    return [] if times == 1 else [f'{times} Send with Invalidate from the server']


def division_seen(seen):
    """weft divides the large Reads; siw would have sent one request each.

    The small Reads beside them have requests of their own, more of them than parts at times.
    """
    parts = [octets for octets in seen.to_server.reads if octets > SMALL_READ_LEN]
    faults = [f'a Read Request for {octets} octets, undivided' for octets in parts
              if octets >= LARGE_READ_LEN]
    if sum(parts) != LARGE_READS * LARGE_READ_LEN:
        faults.append(f'{sum(parts)} octets asked for by large Reads')
    return faults


def closes_seen(seen):
    """Every command is a plain Send, every answer a Send with Invalidate: what any peer knows."""
    sends = seen.to_server.opcodes[OPCODE_SEND]
    closes = seen.to_client.opcodes[OPCODE_SEND_INVALIDATE]
    if sends == BLOCK_COMMANDS and closes == BLOCK_COMMANDS:
        return []
    return [f'{sends} Sends to the target, {closes} Sends with Invalidate from it']


def terminate_seen(cause, strict):
    """The server names the cause once. siw may close without a word instead: then nothing is."""
    def check(seen):
        found = [tuple(terminate) for terminate in seen.to_client.terminates]
        if found == [cause] or (not strict and len(found) <= 1):
            return []
        return [f'Terminate {found} from the server, {cause} expected']
    return check


def wire_faults(meeting, seen, crc_possible):
    faults = []
    if seen.malformed:
        faults.append(f'{seen.malformed} malformed frames')
    for way, flow in (('to the server', seen.to_server), ('to the client', seen.to_client)):
        crc = meeting.crc and crc_possible
        if flow.fpdus == 0:
            faults.append(f'no FPDU {way}')
        if flow.bad_crc or flow.good_crc != (flow.fpdus if crc else 0):
            faults.append(f'{way}: {flow.fpdus} FPDUs, {flow.good_crc} with a good CRC, '
                          f'{flow.bad_crc} with a bad one; CRC is {"on" if crc else "off"}')
    return faults + meeting.on_wire(seen)


def counter_faults(meeting, seen, stats):
    """weft's own counters against the wire; `stats` is the file it left at its exit."""
    if not stats.exists():
        return ['weft left no counters']
    sent, received = wire.weft_counts(stats.read_text())
    out, back = seen.to_server, seen.to_client
    if meeting.weft_serves:
        out, back = back, out
    if sent == out.fpdus and received == back.fpdus:
        return []
    # Behind an error nothing more is taken, and what was handed to TCP before may never leave it.
    if meeting.ends_early and sent >= out.fpdus and received <= back.fpdus:
        return []
    return [f'weft counts {sent} FPDUs out and {received} in, the wire has {out.fpdus} and '
            f'{back.fpdus}']


# --- the run -----------------------------------------------------------------------------------


def run(tap, sides, wanted):
    """The meetings that passed, each with its port and the file of weft's counters."""
    held = []
    for number, meeting in enumerate(wanted):
        server, client = sides.siw, sides.weft
        if meeting.weft_serves:
            server, client = client, server
        stats = None
        meeting.case.env['WEFT_FAULT'] = sides.faults
        if sides.is_weft:
            stats = sides.weft.scratch / f'stats.{number}'
            meeting.case.env['WEFT_STATS_FILE'] = str(stats)
        try:
            outcome = run_case(tap, meeting.case, server, client,
                               attempts=1 if sides.is_weft else 5)
        except OSError as why:
            tap.report(f'{meeting.name}: the guest lives',
                       [str(why), *sides.siw.console_text().splitlines()[-20:]])
            break
        if outcome:
            held.append((meeting, outcome.port, stats))
    return held


def judge_wire(tap, capture, held, is_weft):
    for meeting, port, stats in held:
        name = f'{meeting.name}: the wire'
        if not wire.has_tshark():
            tap.skip(name, 'no program tshark')
            continue
        own_capture = capture.with_name('recut.pcap')
        recut.recut(capture, own_capture, range(port, port + meeting.port_count))
        seen = wire.dissect(own_capture, port, meeting.port_count)
        faults = wire_faults(meeting, seen, crc_possible=is_weft)
        if stats:
            faults += counter_faults(meeting, seen, stats)
        tap.report(name, faults)


def arguments():
    parser = judge.argument_parser(__doc__)
    parser.add_argument('--self', action='store_true', dest='is_self')
    parser.add_argument('--keep', type=pathlib.Path)
    parser.add_argument('--fault', default='')
    return parser.parse_args()


def boot(scratch, count_of_guests):
    """The guests, with the programs of this folder in them."""
    programs = vm.GUEST_PROGRAMS + [PROGRAMS / name
                                    for name in ('invalidate', 'reads', 'terminate', 'crowd')]
    programs += [EXAMPLES / name for name in ('block-initiator', 'block-target')]
    guests = []
    for number in range(count_of_guests):
        folder = scratch / f'guest{number}'
        folder.mkdir()
        guests.append(vm.Guest(folder, programs, number))
    return guests


def main():
    options = arguments()
    is_weft = not options.is_self
    if is_weft and not os.access(WEFT, os.X_OK):
        skip_all(f'{WEFT} is not built')
    vm.enter()
    tap = Tap()
    wanted = judge.chosen(options, lambda: meetings(is_weft))
    with vm.scratch_folder(options.keep) as scratch:
        guests = boot(scratch, 1 if is_weft else 2)
        tapnet.route_between_all()
        if not is_weft:
            weft = guests[1]
        elif options.link == 'tap':
            weft = tapnet.TapSide(len(guests), scratch=scratch)
        else:
            # Root of these namespaces only; there is nobody else in them.
            weft = Local(guests[0].host_addr, [WEFT, 'run'], unprivileged=False, scratch=scratch)
        held = run(tap, Sides(weft, guests[0], is_weft, options.fault), wanted)
        for guest in guests:
            guest.end()
        judge_wire(tap, guests[0].capture, held, is_weft)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
