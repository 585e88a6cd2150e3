"""What every judge script shares: a case table, two sides to run it on, and a TAP report.

A judge is a program of the distribution, unmodified. A Case holds the words of its server and of
its client and says what is wrong with what they printed; a side knows how to start a program
(Local here, the guest of tests/siw/vm.py there). run_case() brings the two together: the client
starts when the server listens, both must end in time and with status 0, and every process that was
started is gone afterwards.

In the words of a case {addr} and {port} stand for the server's address and for a port found free.

Environment: WEFT_BUILD_DIR (default: build/ of this tree), WEFT_SOAK=1 (full counts and sizes).
Options of every script: --only WORD, --repeat N, --link LINK.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable, Optional

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEFT_BUILD_DIR', SOURCE / 'build'))
WEFT = BUILD / 'weft'
SOAK = os.environ.get('WEFT_SOAK', '0') not in ('', '0')
EPHEMERAL_PORTS = pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range')
PORT_TABLES = ('/proc/net/tcp', '/proc/net/tcp6', '/proc/net/udp', '/proc/net/udp6',
               '/proc/net/udplite', '/proc/net/udplite6')
NOBODY = 65534

# Of a shell's the one end of a case would know and not the other: a host of the test's own, or who
# waits for a listener's name.
os.environ.pop('WEFT_ROCE_PORT', None)


def count(quick, soak):
    """The figure for this run: small in `make check`, full in `make soak`."""
    return soak if SOAK else quick


# --- the report -------------------------------------------------------------------------------


class Tap:
    """A TAP report on standard output; finish() prints the plan and gives the exit status."""

    def __init__(self):
        self.cases = 0
        self.failures = 0

    def _line(self, verdict, name, suffix=''):
        self.cases += 1
        print(f'{verdict} {self.cases} - {name}{suffix}', flush=True)

    def report(self, name, faults):
        """`faults`: lines that say what is wrong; none for a pass."""
        if faults:
            self.failures += 1
            self._line('not ok', name)
            self.note('\n'.join(faults))
        else:
            self._line('ok', name)

    def skip(self, name, reason):
        self._line('ok', name, f' # SKIP {reason}')

    @staticmethod
    def note(text):
        for line in text.splitlines():
            print(f'# {line}', flush=True)

    def finish(self):
        print(f'1..{self.cases}', flush=True)
        return 1 if self.failures else 0


def skip_all(reason):
    """Ends the script: nothing of it can run here."""
    print(f'SKIP: {reason}')
    sys.exit(77)


# --- cases ------------------------------------------------------------------------------------


class LocalAction(argparse.Action):
    """Whether connections within this host go through memory of both ends: for all programs."""

    def __call__(self, parser, namespace, values, option_string=None):
        os.environ['WEFT_LOCAL'] = values


def argument_parser(description):
    """The options that every judge script has, for looking into one of its cases."""
    parser = argparse.ArgumentParser(description=description.partition('\n')[0])
    parser.add_argument('--only', default='', metavar='WORD',
                        help='only the cases with this in their names')
    parser.add_argument('--repeat', type=int, default=1, metavar='N', help='each of them N times')
    parser.add_argument('--link', default='socket', help='the link of weft that they run over')
    parser.add_argument('--local', choices=('on', 'off'), action=LocalAction,
                        help='WEFT_LOCAL of all programs')
    return parser


def chosen(options, cases):
    """The cases that the options leave, `cases` being a function that makes them."""
    return [case for _ in range(options.repeat) for case in cases() if options.only in case.name]


@dataclasses.dataclass
class Outcome:
    """What the two programs of a case left behind; the server's half is empty without one."""

    client: str = ''
    server: str = ''
    port: int = 0


@dataclasses.dataclass
class Case:
    """One run of one or two programs.

    check          what is wrong with the outcome, or None
    limit          seconds for the whole case: only one that hangs takes so long
    server_stays   the server never ends by itself: it is stopped when the client has ended
    env            variables for both programs
    addr           the server's address, where it is not that of its side
    port           the server's port, where no option sets it
    absent         what a program says (regular expression) where the stack has no such thing at
                   all: the case is skipped then
    cannot_run     why it cannot run on this machine, asked before; '' if it can
    race           what a program says when it lost a race against its own other half, which no
                   stack can win for it: the case is run again then, a few times
    unheard        what a client says that asks before its server listens (regular expression): it
                   is started again then (the kernel has no table of rdma_cm's listeners on RoCE)
    around         a context for the time in which the programs run, given the port
    """

    name: str
    client: list
    server: Optional[list] = None
    check: Callable[[Outcome], Optional[str]] = lambda outcome: None
    limit: float = count(120, 1200)
    server_stays: bool = False
    env: dict = dataclasses.field(default_factory=dict)
    addr: str = ''
    port: int = 0
    absent: str = ''
    cannot_run: Callable[[], str] = lambda: ''
    race: str = ''
    unheard: str = ''
    around: Callable[[int], contextlib.AbstractContextManager] = contextlib.nullcontext


# Some are lost more often than not, the faster the machine the oftener.
RACES = 60


def run_case(tap, case, server_side, client_side=None, attempts=1):
    """Runs the case and reports it; gives the Outcome back, None for a failure.

    attempts: for stacks that are known to lose a frame now and then; ours is not to need it.
    """
    client_side = client_side or server_side
    program = case.client[0]
    if not client_side.has(program):
        tap.skip(case.name, f'no program {program}')
        return None
    races = 0
    while True:
        faults, outcome = run_pair(case, server_side, client_side)
        if not faults:
            fault = case.check(outcome)
            faults = [fault] if fault else []
        said = outcome.server + outcome.client
        is_race = bool(faults and case.race and re.search(case.race, said))
        races += is_race
        attempts -= not is_race
        if not faults or attempts == 0 or races == RACES:
            break
        tap.note(f'{case.name}: once more: {faults[0]}' + (' (a known race)' if is_race else ''))
    absent = case.absent and re.search(case.absent, said)
    if faults and absent:
        tap.skip(case.name, absent[0])
        return None
    for role, words, text in (('server', case.server, outcome.server),
                              ('client', case.client, outcome.client)):
        if faults and words:
            faults.append(f'{role}: {shlex.join(map(str, words))}')
            faults += [f'    {line[:200]}' for line in ends_of(text.splitlines())]
    tap.report(case.name, faults)
    return None if faults else outcome


def ends_of(lines, first=5, last=15):
    """What a program complains of first is often why, what it says last what became of it."""
    if len(lines) <= first + last:
        return lines
    return [*lines[:first], f'[{len(lines) - first - last} lines]', *lines[-last:]]


def run_pair(case, server_side, client_side):
    """(faults, Outcome); nothing that was started runs on afterwards."""
    deadline = time.monotonic() + case.limit
    port = case.port or free_port()

    def start(side, template):
        words = [str(word).format(addr=case.addr or server_side.addr, port=port)
                 for word in template]
        return side.start(words, case.env, case.limit)

    server = client = None
    faults = []
    with case.around(port), contextlib.ExitStack() as started:
        if case.server:
            server = start(server_side, case.server)
            started.callback(server.stop)
            if case.port or not case.unheard:
                faults += wait_for_listener(server, server_side, port, deadline)
        if not faults:
            client = start(client_side, case.client)
            started.callback(client.stop)
            ended = end_of('client', client, deadline)
            while is_unheard(case, client, server):
                client = start(client_side, case.client)
                started.callback(client.stop)
                ended = end_of('client', client, deadline)
            faults += ended
            if server and not faults and not case.server_stays:
                faults += end_of('server', server, deadline)
    return faults, Outcome(client.output() if client else '', server.output() if server else '',
                           port)


def is_unheard(case, client, server):
    return (case.unheard and server.poll() is None and client.poll() is not None
            and re.search(case.unheard, client.output()))


def wait_for_listener(server, side, port, deadline):
    while not side.listens(port):
        if server.poll() is not None:
            return [f'the server ended with {server.poll()} before it listened']
        if time.monotonic() > deadline:
            return ['the server does not listen']
        time.sleep(0.02)
    return []


def end_of(role, process, deadline):
    status = process.wait(max(0.1, deadline - time.monotonic()))
    if status is None:
        return [f'the {role} did not end in time']
    if status < 0:
        return [f'the {role} was killed by {signal.Signals(-status).name}']
    return [f'the {role} ended with status {status}'] if status else []


_given = set()


def free_port():
    """A TCP port that nothing uses now and that was not given before, nor the seven below it.

    So captures can be told apart by it, and a case may use a few ports from there on. It is none of
    those that the kernel gives to clients: another connection's client would else be found in the
    capture of this one, or sit on the port before the server comes.
    """
    first, last = ports_for_servers()
    while True:
        port = random.randint(first, last - 7)
        if not _given.intersection(range(port - 7, port + 8)) and is_free(port):
            _given.add(port)
            return port


def ports_for_servers():
    """The wider of the two ranges of unprivileged ports that no client is given from."""
    lowest, highest = map(int, EPHEMERAL_PORTS.read_text().split())
    return max((1024, lowest - 1), (highest + 1, 65535), key=lambda ends: ends[1] - ends[0])


def is_free(port):
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        with socket.socket(type=kind) as probe:
            try:
                probe.bind(('', port))
            except OSError:
                return False
    return True


def own_address():
    """Which address a packet to elsewhere would leave from, None for none but those of loopback;
    nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(('192.0.2.1', 9))
        except OSError:
            return None
        addr = probe.getsockname()[0]
    return None if addr.startswith('127.') else addr


def listening_ports(proc_net):
    """Ports in state LISTEN, from the text of /proc/net/tcp or tcp6; of the others, all that take
    datagrams from anybody."""
    return {int(match[1], 16)
            for match in re.finditer(r'^\s*\d+: \w+:(\w{4}) \w+:0000 0[A7] ', proc_net, re.M)}


# --- this machine as a side -------------------------------------------------------------------


class Local:
    """Programs on this machine, `prefix` before each, run in `scratch` or a folder of their own.

    A caller that is root runs them as nobody, so that they prove that no privilege is needed; in a
    tree that nobody may enter, such as one below /root, as a root without a single capability.
    """

    AS_NOBODY = ('setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups')
    WITHOUT_CAPABILITIES = ('setpriv', '--bounding-set=-all', '--inh-caps=-all', '--no-new-privs')

    def __init__(self, addr, prefix=(), unprivileged=True, scratch=None):
        self.addr = addr
        self.prefix = [str(word) for word in prefix]
        self.scratch = scratch or pathlib.Path(tempfile.mkdtemp(prefix='weft-judge.'))
        self.drop = []
        if unprivileged and os.geteuid() == 0:
            if nobody_may_run(WEFT):
                os.chown(self.scratch, NOBODY, NOBODY)
                self.drop = list(self.AS_NOBODY)
            else:
                self.drop = list(self.WITHOUT_CAPABILITIES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.scratch, ignore_errors=True)

    @staticmethod
    def has(program):
        return shutil.which(program) is not None

    def start(self, words, env, limit):
        return LocalProcess(self.drop + self.prefix + words, env, self.scratch)

    @staticmethod
    def listens(port):
        return any(port in listening_ports(pathlib.Path(table).read_text())
                   for table in PORT_TABLES if os.path.exists(table))


def nobody_may_run(program):
    """Whether the folders above a program let other users in (asked by root)."""
    return subprocess.run([*Local.AS_NOBODY, 'test', '-x', program]).returncode == 0


class LocalProcess:
    """A program in a process group of its own, its output in a file."""

    def __init__(self, words, env, scratch):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            cwd=scratch, env={**os.environ, 'TMPDIR': str(scratch), 'HOME': str(scratch), **env},
            start_new_session=True)

    def poll(self):
        return self.process.poll()

    def wait(self, seconds):
        """The exit status (negative: the signal), or None when it still runs."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        """Ends the program and all that came from it: politely first, to hear its last words."""
        family = descendants(self.process.pid)  # fio's jobs leave the group
        for last_word in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, last_word)
            self.wait(2)
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors='replace')


def run_chosen(tap, cases, server_side, client_side=None):
    """Runs these, but for those that cannot run on this machine, of which it is said why."""
    for case in cases:
        reason = case.cannot_run()
        if reason:
            tap.skip(case.name, reason)
        else:
            run_case(tap, case, server_side, client_side)


def run_cases(description, cases):
    """The body of a judge script: what `cases()` gives, under `weft run` on this machine."""
    options = argument_parser(description).parse_args()
    tap = Tap()
    with weft_side(link=options.link) as side:
        run_chosen(tap, chosen(options, cases), side)
    sys.exit(tap.finish())


def descendants(ancestor):
    """Process ids of all children, and theirs, that live now."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):  # it may go at any time
            stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
            # The name, in parentheses, may hold anything; the parent is the second word after it.
            parents[int(pid)] = int(stat.rpartition(')')[2].split()[1])
    found = []
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] != ancestor:
            line.append(parents[line[-1]])
        if line[-1] == ancestor and pid != ancestor:
            found.append(pid)
    return found


def weft_side(addr='127.0.0.1', options=(), link='socket', unprivileged=True):
    """Programs under `weft run`; ends the script with a skip where weft is not built."""
    if not os.access(WEFT, os.X_OK):
        skip_all(f'{WEFT} is not built')
    return Local(addr, [WEFT, 'run', f'--link={link}', *options], unprivileged)


# --- checks that several scripts use ----------------------------------------------------------


def says(*wanted):
    """A check: the client's output holds each of these (regular expressions, by line)."""
    def check(outcome):
        for pattern in wanted:
            if not re.search(pattern, outcome.client, re.M):
                return f'the client does not say /{pattern}/'
        return None
    return check


# With -R, perftest connects a second time, and its server may not be listening again by then: that
# is ECONNREFUSED of streams, and of InfiniBand an unknown service id (of datagrams, status 1).
PERFTEST_RACE = (r'RDMA_CM_EVENT_REJECTED; error: (-111|8)\b'
                 r'|RDMA_CM_EVENT_UNREACHABLE; error: 1\b')


def perftest_rows(text):
    """The result table of a perftest program: {bytes: [iterations, figure, ...]}."""
    rows = {}
    for match in re.finditer(r'^ *(\d+)\s+(\d+)((?:[ \t]+(?:[\d.]+|inf|-?nan))+)[ \t]*$', text,
                             re.M):
        rows[int(match[1])] = [int(match[2])] + [float(word) for word in match[3].split()]
    return rows


def perftest_check(sizes, honest_clock=True):
    """A check: one row for each size, its last figure (message rate, 99.9 percentile) above zero.

    honest_clock=False: the rows only, for a program in an emulated processor, whose calibration of
    its own clock may fail.
    """
    def check(outcome):
        rows = perftest_rows(outcome.client)
        if sorted(rows) != sorted(sizes):
            return f'result rows for {sorted(rows)} bytes, not for {sorted(sizes)}'
        for size, (_, *figures) in rows.items():
            if honest_clock and not 0 < figures[-1] < float('inf'):
                return f'{size} bytes: a figure of {figures[-1]}'
        return None
    return check
