#!/usr/bin/env python3
"""weft's RoCE device and the Linux kernel's rxe on one wire, each as client and as server.

    test_rxe.py
        --only WORD      only the cases with this in their names
        --repeat N       each of them N times

weft is on this machine; rxe is in a virtual machine (vm.py), and each is server once and client
once in every case. Programs tell each other GIDs and numbers over TCP. One boot serves all cases.

rxe drops what has a wrong ICRC without a word, and then does not count it. So behind each case, and
where the path is whole, rxe has to have taken as many packets as weft put, and weft to have found
every ICRC of rxe's right.
"""

import contextlib
import dataclasses
import ipaddress
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

import vm
import judge
import roce_reads
import tapnet
from judge import BUILD, WEFT, Case, Local, Tap, count, run_case, says, skip_all

FIRST_PSN = BUILD / 'tests/siw/first-psn.so'  # programs that have it begin at 0xfffff0
READS = BUILD / 'tests/siw/reads'
LARGE_READS, LARGE_READ_LEN, SMALL_READ_LEN = 4, 8 << 20, 4096  # of reads.c
BLOCK_INITIATOR, BLOCK_TARGET = (BUILD / f'examples/block-{role}'
                                 for role in ('initiator', 'target'))
BLOCK_COMMANDS = 50
PROGRAMS = ['rdma', 'ibv_rc_pingpong', 'ibv_uc_pingpong', 'ibv_ud_pingpong',
            'ibv_srq_pingpong', 'ib_send_bw', 'ib_send_lat', 'ib_write_bw', 'ib_write_lat',
            'ib_read_bw', 'ib_read_lat', 'ib_atomic_bw', 'ib_atomic_lat', 'rping', 'udaddy', 'tc',
            FIRST_PSN, READS, BLOCK_INITIATOR, BLOCK_TARGET]
# Room for 4096 octets and their headers: every path MTU can be asked for.
INTERFACE_MTU = 4200
PATH_MTUS = (256, 512, 1024, 2048, 4096)
PORT = '/sys/class/infiniband/rxe0/ports/1'
BAD_PATH = 'loss=1%,reorder=1%,seed=7'
# What leaves the guest: one in a hundred is lost, and one is late.
NETEM = ['loss', '1%', 'delay', '5ms', 'reorder', '99%']
TC = '/sbin/tc'  # not busybox's
IPV6_NET = 'fd77::'  # of this machine (1) and the guest (2)
# Of acknowledgements. On a busy machine the emulator stands still for a second and more, and seven
# tries of a shorter one are over before it has read the first: 268 ms each. Where the peer is to be
# missed, 4.2 ms.
PATIENT, IMPATIENT = ['-u', 16], ['-u', 10]
# Who ends first takes its last acknowledgement along: if that was lost, the other asks in vain, for
# ever where rxe does (seven retries), else until its own are over. A card could not do better.
LOSSY_ATTEMPTS = 3
CASE_LIMIT_S = count(90, 300)
READS_LIMIT_S = 180  # 32 MiB, of which each octet passes an emulated processor
END_LIMIT_S = 30  # of a program whose peer is gone
ROCE_PORT = 4791
# A race that nobody can win for the program: between its device's socket and its listener, or, of
# perftest, between its two listeners (judge.PERFTEST_RACE).
REFUSED = 'RDMA_CM_EVENT_REJECTED'


@dataclasses.dataclass
class Sides:
    weft: Local
    rxe: vm.Guest
    rxe_gid: int  # index of the GID that is the guest's IPv4 address


class ByManager:
    """A side whose servers listen by rdma_cm, and not at TCP's ports."""

    def __init__(self, side):
        self.side = side
        self.addr, self.has, self.start = side.addr, side.has, side.start

    def listens(self, _):
        """weft: from its device's socket to the listener it is not far; see REFUSED."""
        if isinstance(self.side, vm.Guest):
            return 'state LISTEN' in self.side.run(['rdma', 'resource', 'show', 'cm_id'])
        return self.side.listens(ROCE_PORT)


@dataclasses.dataclass
class Meeting:
    """A case, who serves in it, and what its counters are to say."""

    case: Case
    weft_serves: bool
    is_whole: bool = True  # the path
    is_short: bool = False  # the server of receives
    by_manager: bool = False
    has_netem: bool = False

    @property
    def name(self):
        return self.case.name


# --- the cases ---------------------------------------------------------------------------------


def who(weft_serves):
    return 'rxe as client, weft as server' if weft_serves else 'weft as client, rxe as server'


def meetings(rxe_gid):
    """Every case, both ways round."""
    for weft_serves in (False, True):
        for what, program, options, near_wrap in (*whole_paths(), *count((), all_perftest())):
            case = case_of(weft_serves, rxe_gid, what, program, options)
            if near_wrap:
                case.env['LD_PRELOAD'] = str(FIRST_PSN)
            yield Meeting(case, weft_serves)
        yield Meeting(case_of(weft_serves, rxe_gid, 'fewer receives than Sends', 'ib_send_bw',
                              ['-s', 4096, '-n', 2000, '-r', 1]), weft_serves, is_short=True)
        for what, program, options in bad_paths():
            case = case_of(weft_serves, rxe_gid, what, program, options)
            case.env['WEFT_FAULT'] = BAD_PATH
            yield Meeting(case, weft_serves, is_whole=False)
        for what, program, options in bad_paths():
            yield Meeting(case_of(weft_serves, rxe_gid, f'{what} in the kernel', program, options),
                          weft_serves, is_whole=False, has_netem=True)
        for case in managed(weft_serves):
            # Of the answers to a Read of megabytes, which nothing holds back, some find no room.
            yield Meeting(case, weft_serves, is_whole=str(READS) not in case.client,
                          by_manager=True)


def meetings_of_ipv6(rxe_gid):
    """Those in which an address has a part. GIDs are told over TCP, which stays as it is."""
    for weft_serves in (False, True):
        for program, options in [('ibv_rc_pingpong', ['-c', '-n', 20, '-s', 10000]),
                                 ('ibv_ud_pingpong', ['-c', '-n', 20, '-s', 2048]),
                                 ('ib_write_bw', ['-s', 65536, '-n', 20, '-m', 4096]),
                                 ('ib_read_bw', ['-s', 65536, '-n', 20, '-m', 1024])]:
            yield Meeting(case_of(weft_serves, rxe_gid, 'IPv6', program, options), weft_serves)
        addr = IPV6_NET + ('1' if weft_serves else '2')
        for case in managed(weft_serves):
            if case.client[0] in ('rping', 'udaddy') and '-q' not in case.client:
                case.name += ', IPv6'
                case.addr = addr
                yield Meeting(case, weft_serves, by_manager=True)


def whole_paths():
    """(what it is, program, its options, whether PSNs begin near their end)"""
    for mtu in PATH_MTUS:
        yield (f'every octet, path MTU {mtu}', 'ibv_rc_pingpong',
               ['-c', '-n', 20, '-m', mtu, '-s', 10000], False)
    yield 'one octet, PSNs wrap', 'ibv_rc_pingpong', ['-c', '-n', 100, '-s', 1], True
    yield ('many packets, PSNs wrap', 'ibv_rc_pingpong',
           ['-c', '-n', 10, '-s', 100001, '-m', 256], True)
    yield ('every octet, a shared receive queue', 'ibv_srq_pingpong',
           ['-c', '-q', 4, '-n', 50, '-s', 5000], False)
    for program in 'ibv_uc_pingpong', 'ibv_ud_pingpong':
        yield 'every octet', program, ['-c', '-n', 50, '-s', 2048], False
    yield '1000001 octets', 'ib_write_bw', ['-s', 1000001, '-n', 5], False
    for verb in ('send', 'write', 'read'):
        program = f'ib_{verb}_bw'
        for mtu in (256, 4096):
            yield (f'path MTU {mtu}, PSNs wrap', program, ['-s', 65536, '-n', 20, '-m', mtu],
                   True)
        yield '64 octets', f'ib_{verb}_lat', ['-s', 64, '-n', 50], False
    for operation in ('CMP_AND_SWAP', 'FETCH_AND_ADD'):
        yield operation, 'ib_atomic_bw', ['-n', 100, '-A', operation], True
    yield 'FETCH_AND_ADD', 'ib_atomic_lat', ['-n', 50, '-A', 'FETCH_AND_ADD'], False
    yield 'UD', 'ib_send_lat', ['-c', 'UD', '-s', 1024, '-n', 50], False


def all_perftest():
    """What of perftest is left: minutes of the emulator, which `make soak` has."""
    for kind in ('bw', 'lat'):
        for mtu in PATH_MTUS:
            for verb in ('send', 'write', 'read'):
                yield (f'20000 octets, path MTU {mtu}', f'ib_{verb}_{kind}',
                       ['-s', 20000, '-n', 50, '-m', mtu], True)
            yield f'path MTU {mtu}', f'ib_atomic_{kind}', ['-n', 50, '-m', mtu], True
        for service in ('UC', 'UD'):
            yield (f'{service}, PSNs wrap', f'ib_send_{kind}',
                   ['-c', service, '-s', 1000, '-n', 50], True)
        yield 'UC, PSNs wrap', f'ib_write_{kind}', ['-c', 'UC', '-s', 20000, '-n', 20], True


def bad_paths():
    yield 'loss and reordering', 'ibv_rc_pingpong', ['-c', '-n', 100, '-s', 20000]
    for verb in ('send', 'write', 'read'):
        yield ('loss and reordering', f'ib_{verb}_bw',
               ['-s', 65536, '-n', 20, '-m', 1024, *PATIENT])
    yield 'loss and reordering', 'ib_atomic_bw', ['-n', 200, *PATIENT]


def managed(weft_serves):
    """What connects by rdma_cm: requests carry addresses and ports, and no GID is named."""
    rping = ['rping', '-a', '{addr}', '-p', '{port}', '-C', 20, '-V']
    udaddy = ['udaddy', '-c', 4, '-C', 20]
    pairs = [
        ('64 octets', [*rping, '-c'], [*rping, '-s']),
        ('65000 octets', [*rping, '-S', 65000, '-c'], [*rping, '-S', 65000, '-s']),
        ('queue pairs of its own', [*rping, '-q', '-c'], [*rping, '-q', '-s']),
        ('four at a time', [*udaddy, '-s', '{addr}'], [*udaddy, '-b', '{addr}']),
    ]
    for verb in 'send', 'write', 'read':
        words = [f'ib_{verb}_bw', '-R', '-F', '-p', '{port}', '-s', 65536, '-n', 20]
        pairs.append(('65536 octets', [*words, '{addr}'], words))
    if weft_serves:  # the other way round: claims()
        pairs.append(('small Reads pass large ones', *([str(READS), role, '{addr}', '{port}']
                                                       for role in ('client', 'server'))))
    else:  # rxe's completions do not say that a key was taken back, so its own end cannot initiate
        pairs.append(('one-shot memory that rxe closes',
                      [str(BLOCK_INITIATOR), '{addr}', '{port}', '--way=oneshot',
                       f'--count={BLOCK_COMMANDS}', '--depth=4'],
                      [str(BLOCK_TARGET), '{addr}', '{port}', '--once', '--disk=1']))
    for what, client, server in pairs:
        program = os.path.basename(client[0])
        yield Case(f'{who(weft_serves)}: rdma_cm, {program}, {what}', client, server,
                   limit=CASE_LIMIT_S if program in PROGRAMS else READS_LIMIT_S,
                   # It waits for receives to be flushed, which the kernel leaves to the program.
                   server_stays=program == 'block-initiator',
                   env={'WEFT_WIRE': 'roce'}, race=REFUSED)


def case_of(weft_serves, rxe_gid, what, program, options):
    """The emulated processor's clock is not to be relied on: there is to be a figure, no more."""
    words, gid, wanted = [program, '-F', '-p', '{port}', *options], '-x', r'^ *\d+ +\d+ +[\d.]+'
    if program.startswith('ibv_'):
        words, gid, wanted = [program, '-p', '{port}', *options], '-g', r'^\d+ iters in [\d.]+ sec'
    server, client = (0, rxe_gid) if weft_serves else (rxe_gid, 0)
    return Case(f'{who(weft_serves)}: {program}, {what}', [*words, gid, client, '{addr}'],
                [*words, gid, server], says(wanted), limit=CASE_LIMIT_S,
                env={'WEFT_WIRE': 'roce'})


# --- what both ends counted --------------------------------------------------------------------


def rxe_counters(guest):
    text = guest.run(['sh', '-c', f'cd {PORT}/hw_counters && grep . *'])
    return {name: int(value) for name, value in re.findall(r'^(\w+):(\d+)$', text, re.M)}


def counter_faults(meeting, rxe, weft):
    """`rxe`: what its counters rose by; `weft`: those of the process."""
    packets = weft['packets']
    faults = [f'weft counts {packets[name]} {name}'
              for name in ('icrc_wrong', 'bad_lengths', 'too_short') if packets[name]]
    missed = packets['packets_out'] - rxe['rcvd_pkts']
    if meeting.is_whole and not 0 <= missed <= late_packets(meeting, weft.get('rc_total', {})):
        faults.append(f'weft put {packets["packets_out"]} packets, rxe took {rxe["rcvd_pkts"]}')
    if meeting.is_short and not (weft['rc_total'].get('refused.not_ready') if meeting.weft_serves
                                 else rxe['send_rnr_err']):
        faults.append('the server never said that it was not ready')
    return faults


def late_packets(meeting, rc):
    """How many of weft's packets may have met a queue pair that is gone, of which rxe counts none.

    As a connection ends, an acknowledgement may still be on its way; and where processors are busy,
    what was put again, or answered again, since rxe was late.
    """
    again = ('requests_again', 'duplicates', 'reads_again', 'atomics_again')
    return meeting.by_manager + sum(rc.get(name, 0) for name in again)


# --- Reads that rxe answers ----------------------------------------------------------------------

ALLOTMENT_LEN = 65536


def reads_case(env):
    words = ['{addr}', '{port}']
    return Case('', [READS, 'client', *words], [READS, 'server', *words], limit=READS_LIMIT_S,
                env={'WEFT_WIRE': 'roce', 'WEFT_READ_ALLOTMENT': str(ALLOTMENT_LEN), **env},
                race=REFUSED)


def reads_seen(sides, name, env):
    """(faults, requests, answered packets, what weft counts of Reads) of large Reads on one
    connection and small ones on another, all of them answered by rxe."""
    stats, capture = (sides.weft.scratch / f'{name}.{kind}' for kind in ('stats', 'pcap'))
    case = reads_case({'WEFT_STATS_FILE': str(stats), 'WEFT_PCAP': str(capture), **env})
    for _ in range(judge.RACES):
        faults, outcome = judge.run_pair(case, ByManager(sides.rxe), sides.weft)
        if not faults or not re.search(case.race, outcome.client + outcome.server):
            break
    if faults:
        return [*faults, *outcome.client.splitlines()], [], {}, {}
    counted = json.loads(stats.read_text())['weft_roce0']['reads']
    return [], *roce_reads.look(capture.read_bytes()), counted


def counted_faults(counted, at_least):
    return [f'{counted[name]} {name}, at least {least} expected'
            for name, least in at_least.items() if counted[name] < least]


def claims(tap, sides, only):
    """The claims about InfiniBand nodes of docs/preemptible-reads.md, with the kernel as one."""
    names = {claim: f'weft as client, rxe as server: Reads, claim{numbers}'
             for claim, numbers in (('divided', 's 9 and 21: divided'),
                                    ('commands', 's 10 and 22: READ commands'),
                                    ('preempted', ' 25: pre-empted'))}
    if not any(only in name for name in names.values()):
        return
    parts = LARGE_READS * (LARGE_READ_LEN // ALLOTMENT_LEN)
    faults, requests, answered, counted = reads_seen(sides, 'divided', {})
    tap.report(names['divided'], faults or roce_reads.division_faults(
        requests, SMALL_READ_LEN, LARGE_READ_LEN, LARGE_READS, ALLOTMENT_LEN)
        + counted_faults(counted, {'first_requests': LARGE_READS,
                                   'subsidiary_requests': parts - LARGE_READS}))
    tap.report(names['commands'], faults or roce_reads.command_faults(requests, answered,
                                                                     PATH_MTUS[-1]))
    faults, requests, _, counted = reads_seen(sides, 'preempted', {'WEFT_READ_CONTEXTS': '1'})
    tap.report(names['preempted'], faults or roce_reads.preemption_faults(requests, SMALL_READ_LEN)
               + counted_faults(counted, {'preemptions': 10, 'reactivations': 10,
                                          'continuations': 10}))


# --- a peer that is killed ---------------------------------------------------------------------


def survivor_faults(sides, weft_serves):
    """What is wrong with the client whose server is killed in the middle of its Writes.

    rxe never ends of seven retries, which is what perftest asks for (rxe_completer() in
    rxe_comp.c): there the client has to go on asking, and the next process of weft to serve others.
    """
    server_side, client_side = ((sides.weft, sides.rxe) if weft_serves
                                else (sides.rxe, sides.weft))
    case = case_of(weft_serves, sides.rxe_gid, '', 'ib_write_bw', ['-D', 60, *IMPATIENT])
    port = judge.free_port()
    with contextlib.ExitStack() as started:
        def start(side, template):
            process = side.start([str(word).format(addr=server_side.addr, port=port)
                                  for word in template], case.env, CASE_LIMIT_S)
            started.callback(process.stop)
            return process

        server = start(server_side, case.server)
        faults = judge.wait_for_listener(server, server_side, port,
                                         time.monotonic() + CASE_LIMIT_S)
        if faults:
            return faults
        before = rxe_counters(sides.rxe)
        client = start(client_side, case.client)
        if not rises(sides.rxe, before, 'rcvd_pkts', 'sent_pkts'):
            return ['nothing was written', *client.output().splitlines()]
        kill(server, 'ib_write_bw')
        if weft_serves:
            return faults_beside_one_that_asks(sides)
        status = client.wait(END_LIMIT_S)
        said = client.output()
        if not status or status < 0 or 'status 12' not in said:
            return [f'the client ended with {status}, not for want of answers',
                    *said.splitlines()]
    return []


def bereaved_faults(sides):
    """What is wrong with weft's server when rping is killed in the guest: its kernel says DREQ."""
    case = Case('', ['rping', '-c', '-a', '{addr}', '-p', '{port}'],
                ['rping', '-s', '-a', '{addr}', '-p', '{port}'], env={'WEFT_WIRE': 'roce'})
    port = judge.free_port()
    with contextlib.ExitStack() as started:
        def start(side, template):
            process = side.start([str(word).format(addr=sides.weft.addr, port=port)
                                  for word in template], case.env, CASE_LIMIT_S)
            started.callback(process.stop)
            return process

        server = start(sides.weft, case.server)
        faults = judge.wait_for_listener(server, ByManager(sides.weft), port,
                                         time.monotonic() + CASE_LIMIT_S)
        before = rxe_counters(sides.rxe)
        client = start(sides.rxe, case.client)
        if faults or not rises(sides.rxe, before, 'rcvd_pkts', 'sent_pkts'):
            return faults or ['nothing was said', *client.output().splitlines()]
        kill(client, 'rping')
        status = server.wait(END_LIMIT_S)
        said = server.output()
        return [] if status is not None and 'DISCONNECT' in said else [
            f'the server ended with {status}, and not as its peer had gone', *said.splitlines()]


def faults_beside_one_that_asks(sides):
    if not rises(sides.rxe, rxe_counters(sides.rxe), 'completer_retry_err'):
        return ['rxe does not ask again']
    case = case_of(True, sides.rxe_gid, '', 'ib_write_bw', ['-s', 65536, '-n', 20])
    faults, outcome = judge.run_pair(case, sides.weft, sides.rxe)
    return faults or list(filter(None, [case.check(outcome)]))


def rises(guest, before, *names):
    """Waits until each of these counters of rxe is a good deal more."""
    deadline = time.monotonic() + CASE_LIMIT_S
    while time.monotonic() < deadline:
        now = rxe_counters(guest)
        if min(now[name] - before[name] for name in names) > 10:
            return True
        time.sleep(0.1)
    return False


def kill(process, program):
    if isinstance(process, vm.GuestProcess):
        process.poll()
        number = process.received.partition(b'\n')[0].decode()
        # The program is the child of `timeout`, whose number that is.
        vm.GuestProcess(process.addr, ['sh', '-c', f'kill -9 {number} $(pidof {program})'], {},
                        5).wait(5)
    else:
        os.killpg(process.process.pid, signal.SIGKILL)


# --- the run -----------------------------------------------------------------------------------


def hold(tap, sides, number, meeting):
    """One meeting, and behind it a look at the counters of both ends."""
    server, client = sides.rxe, sides.weft
    if meeting.weft_serves:
        server, client = client, server
    if meeting.by_manager:
        server = ByManager(server)
    stats = sides.weft.scratch / f'stats.{number}'
    meeting.case.env['WEFT_STATS_FILE'] = str(stats)
    before = {}

    @contextlib.contextmanager
    def counted(_):
        """Around each try, since the counters of weft are those of the last."""
        before.update(rxe_counters(sides.rxe))
        with netem(sides.rxe) if meeting.has_netem else contextlib.nullcontext():
            yield

    meeting.case.around = counted
    if not run_case(tap, meeting.case, server, client,
                    attempts=1 if meeting.is_whole else LOSSY_ATTEMPTS):
        return
    after = rxe_counters(sides.rxe)
    rose = {name: after[name] - before[name] for name in after}
    tap.report(f'{meeting.name}: the counters',
               counter_faults(meeting, rose, json.loads(stats.read_text())['weft_roce0']))


@contextlib.contextmanager
def netem(guest):
    """The kernel's own bad path, around what leaves the guest."""
    fault = guest.run([TC, 'qdisc', 'add', 'dev', 'eth0', 'root', 'netem', *NETEM])
    assert not fault, fault
    try:
        yield
    finally:
        guest.run([TC, 'qdisc', 'del', 'dev', 'eth0', 'root'])


def rxe_started(guest):
    """Makes rxe the guest's device; the index of its GID of the guest's IPv4 address."""
    guest.run(['ip', 'link', 'set', 'eth0', 'mtu', INTERFACE_MTU])
    guest.use_device('rxe')
    return gid_index(guest, f'::ffff:{guest.addr}')


def gid_index(guest, addr):
    wanted = ipaddress.IPv6Address(addr).exploded
    gids = guest.run(['sh', '-c', f'cat {PORT}/gids/[0-4]'])
    return gids.split().index(wanted)


def use_ipv6(guest):
    """Gives both an IPv6 address, and weft no other: what TCP needs stays, on the loopback
    interface, whose addresses its device does not take. The index of rxe's GID of its own."""
    guest.run(['sh', '-c', 'echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; '
                           f'ip address add {IPV6_NET}2/64 dev eth0'])
    for words in (['address', 'add', f'{IPV6_NET}1/64', 'dev', 'tap0', 'nodad'],
                  ['address', 'del', f'{guest.host_addr}/24', 'dev', 'tap0'],
                  ['address', 'add', guest.host_addr, 'dev', 'lo'],
                  ['route', 'add', f'{guest.addr}/32', 'dev', 'tap0', 'src', guest.host_addr]):
        tapnet.ip(*words)
    # A queue pair that is told of a neighbour whom the guest has not met yet may fail.
    guest.run(['sh', '-c', f'for _ in $(seq 50); do ping -c 1 -W 1 {IPV6_NET}1 && exit; done'])
    return gid_index(guest, f'{IPV6_NET}2')


def main():
    options = judge.argument_parser(__doc__).parse_args()
    if not os.access(WEFT, os.X_OK):
        skip_all(f'{WEFT} is not built')
    vm.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-rxe.') as folder:
        guest = vm.Guest(pathlib.Path(folder), PROGRAMS, extras=['netem'])
        tapnet.ip('link', 'set', 'tap0', 'mtu', str(INTERFACE_MTU))
        gid = rxe_started(guest)
        with Local(guest.host_addr, [WEFT, 'run', f'--roce-port={ROCE_PORT}']) as weft:
            sides = Sides(weft, guest, gid)
            for number, meeting in enumerate(judge.chosen(options, lambda: meetings(gid))):
                hold(tap, sides, number, meeting)
            for weft_serves in (False, True):
                name = f'{who(weft_serves)}: the server is killed'
                if options.only in name:
                    tap.report(name, survivor_faults(sides, weft_serves))
            name = f'{who(True)}: rdma_cm, rping: the client is killed'
            if options.only in name:
                tap.report(name, bereaved_faults(sides))
            claims(tap, sides, options.only)
            gid = use_ipv6(guest)
            for number, meeting in enumerate(judge.chosen(options, lambda: meetings_of_ipv6(gid))):
                hold(tap, sides, f'ipv6.{number}', meeting)
        guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
