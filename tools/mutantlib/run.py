"""Runs tests: some at a time, each in a scratch folder, a session and (if possible) a namespace."""

import collections
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

from .choice import OF_NAMESPACE

DATA_MAX = 8 << 30
FILE_MAX = 4 << 30
LIMIT_FACTOR, LIMIT_LEAST_S = 8, 15
START_S = 0.1
LISTING_S = 30
# A script whose cases are functions, and which runs one of them alone (tests/cli/cases.py).
_OF_CASES = re.compile(r'^from \w+ import (?:\([^)]*|.*)\bmain\b', re.M)
_RESULT = re.compile(rb'^(?:not )?ok\b.*$', re.M)


class Test:
    def __init__(self, facts, program, build, case=None):
        self.whole = facts['name']
        self.case = case
        self.name = f'{self.whole}: {case}' if case else self.whole
        self.folder = self.whole.split('/')[0]
        self.command = [*facts['cmd'], '--only', case] if case else facts['cmd']
        self.facts = facts
        self.environment = facts['env']
        self.is_alone = not facts['is_parallel']
        self.build = build
        self.program = program  # the target to build; None: everything that is no test
        self.seconds = None     # how long it takes unmutated; None: not known
        self.is_long = False    # too long for a quick one; how long is not known
        self.seen = None        # the probes that it passes, as bits; None: not known
        self.kills = 0
        self.mutants = 0        # that it met
        self.kills_of = collections.Counter()  # by file of the mutants
        self.mutants_of = collections.Counter()

    def cases(self, confined):
        """A script's cases, each a test; the whole where it has none, or does not tell them."""
        path = next((word for word in self.command if word.endswith('.py')), None)
        if self.program or not path or not _OF_CASES.search(pathlib.Path(path).read_text()):
            return [self]
        listed = subprocess.run([*(confined or []), *self.command, '--list'], text=True,
                                env={**os.environ, **self.environment}, cwd=self.build,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=LISTING_S)
        names = listed.stdout.splitlines() if listed.returncode == 0 else []
        return [self.of_case(name) for name in names] or [self]

    def of_case(self, case):
        """A case of this script; the whole for None."""
        return self if case is None else Test(self.facts, None, self.build, case)

    @property
    def limit(self):
        return max(LIMIT_LEAST_S, LIMIT_FACTOR * self.seconds)

    def rank(self, mutant):
        """Seconds that a kill of the mutant costs, as far as it is known: by how many it killed of
        those of the same file and of all, and by the words that its name shares with the file's."""
        path = str(mutant.path)
        kills = self.kills + 8 * self.kills_of[path]
        met = self.mutants + 8 * self.mutants_of[path]
        shared = len(words_of(path) & words_of(self.whole.replace('test_', '')))
        return (self.seconds + START_S) * (met + 2) / (kills + 1) / 4 ** shared


def words_of(name):
    """Of a file's name, or a test's, without its folder."""
    return set(re.split(r'[_./@]', name.split('/')[-1].rsplit('.', 1)[0]))


def confinement():
    """What keeps a mutant's kill(-1), its orphans and its sockets to itself: namespaces, in which
    process ids are small, so that two tests would name their control sockets alike if they shared
    the network or /run. They end with whoever made them, however that ends. None: no such."""
    apart_from = ['setpriv', '--pdeathsig', 'KILL', 'unshare']
    pids = ['--pid', '--fork', '--kill-child', '--mount-proc']
    apart = ('ip link set lo up && mount -t tmpfs none /run && '
             f'echo "$MUTANT" >{OF_NAMESPACE} && exec "$@"')
    for tried in ([*apart_from, '--net', *pids, 'sh', '-c', apart, 'sh'], [*apart_from, *pids],
                  [*apart_from, '--user', '--map-current-user', *pids]):
        try:
            if subprocess.run([*tried, 'true'], capture_output=True).returncode == 0:
                return tried
        except OSError:
            return None
    return None


def is_left_out(facts):
    """What reads the sources, in which a mutant is to differ; what is long; whole systems; what is
    a part of another test."""
    suites = {suite.split(':')[-1] for suite in facts['suite']}
    is_part = '@short' in facts['name']
    return facts['name'].split('/')[0] == 'lint' or is_part or bool(suites & {'soak', 'system'})


class Floor:
    """Places for tests, shared by who judges at the same time: a test that is to be alone takes
    all, and nobody begins another while it waits for them."""

    def __init__(self, places):
        self.places = self.free = places
        self.lock = threading.Lock()
        self.waits_for_all = None

    def take(self, who, count):
        with self.lock:
            if self.waits_for_all not in (None, who):
                return False
            self.waits_for_all = who if count > self.free and count == self.places else None
            if count > self.free:
                return False
            self.free -= count
            return True

    def give(self, count):
        with self.lock:
            self.free += count

    def forget(self, who):
        with self.lock:
            if self.waits_for_all is who:
                self.waits_for_all = None


class Runner:
    """How the tests of a workshop are found and run."""

    def __init__(self, jobs):
        self.floor = Floor(jobs)
        self.is_closed = False
        self.confined = confinement()
        # How many mutants can meet tests at a time: processes without environment must tell theirs.
        self.mutants_max = jobs if self.confined and '--net' in self.confined else 1
        self.everything_else = []  # targets that are no tests
        self.spent = dict.fromkeys(('unmutated', 'mutants'), 0)  # seconds of processors, by tests

    def tests_of(self, workshop):
        targets = workshop.targets()
        programs = {str(workshop.build.resolve() / file): file for _, file in targets}
        self.everything_else = [file for name, file in targets
                                if not name.startswith(('test_', 'replay_', 'fuzz_', 'bench-'))]
        return [Test(facts, programs.get(facts['cmd'][0]), workshop.build)
                for facts in workshop.tests()
                if not is_left_out(facts)]

    def targets_of(self, tests):
        targets = [test.program for test in tests if test.program]
        if len(targets) < len(tests) or any(test.folder in ('node', 'initiator') for test in tests):
            targets += self.everything_else
        return targets

    def outcomes(self, tests, limit_of, environment_of):
        """(test, how, seconds) of each as it ends; who has heard enough closes this."""
        waiting = list(tests)
        running = []
        me = object()
        try:
            while waiting or running:
                if self.is_closed:
                    raise InterruptedError
                while waiting and self.floor.take(me, self.width_of(waiting[0])):
                    test = waiting.pop(0)
                    running.append(Running(test, self.confined, limit_of(test),
                                           environment_of(test)))
                time.sleep(0.005)
                for run in list(running):
                    how = run.ended()
                    if how is not None:
                        running.remove(run)
                        self.note_spent(run)
                        self.floor.give(self.width_of(run.test))
                        yield run.test, how, time.monotonic() - run.began
        finally:
            for run in running:
                run.stop()
                self.note_spent(run)
                self.floor.give(self.width_of(run.test))
            self.floor.forget(me)

    def note_spent(self, run):
        self.spent['unmutated' if run.number == '0' else 'mutants'] += run.spent_s

    def width_of(self, test):
        return self.floor.places if test.is_alone else 1


class Running:
    """One test that runs."""

    def __init__(self, test, confined, limit_s, environment):
        self.test = test
        self.number = environment.get('MUTANT')
        self.spent_s = 0  # of processors, known when it has ended
        self.began = time.monotonic()
        self.deadline = self.began + limit_s
        self.scratch = tempfile.TemporaryDirectory(prefix='m-', ignore_cleanup_errors=True)
        os.chmod(self.scratch.name, 0o755)  # some tests go on as another user
        self.output = tempfile.TemporaryFile()
        environment = {**os.environ, **test.environment, **environment,
                       'TMPDIR': self.scratch.name}
        self.process = subprocess.Popen(
            [*(confined or []), *test.command], env=environment, start_new_session=True,
            cwd=test.build, stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=subprocess.DEVNULL, preexec_fn=bounded)

    def ended(self):
        """None while it runs; 'passed', 'skipped', 'failed' or 'time'."""
        self.wait(os.WNOHANG)
        status = self.process.returncode
        if status is None and time.monotonic() < self.deadline:
            return None
        self.stop()
        if status is None:
            return 'time'
        if status not in (0, 77):
            return 'failed'
        return 'skipped' if status == 77 or self.has_skipped_all() else 'passed'

    def has_skipped_all(self):
        self.output.seek(0)
        results = _RESULT.findall(self.output.read())
        return bool(results) and all(b'# skip' in result.lower() for result in results)

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait(0)
        self.scratch.cleanup()

    def wait(self, options):
        """Notes how it ended and what it took, once."""
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, options)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.spent_s = usage.ru_utime + usage.ru_stime


def bounded():
    """No mutant takes the machine's memory or disk with it."""
    for limit, value in ((resource.RLIMIT_DATA, DATA_MAX), (resource.RLIMIT_FSIZE, FILE_MAX),
                         (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
