"""Which tests a mutant meets, in which order, and how they end."""

import collections
import os
import resource
import signal
import subprocess
import tempfile
import time

from lintlib import house

from .workshop import Broken

# Folders of tests that are of no room of their own, and the rooms that they stand on.
STAND_ON = {'judges': 'verbs cm', 'siw': 'verbs cm', 'examples': 'verbs cm sim'}
# They read the sources, which a mutant is to differ in.
NO_TESTS = ('lint',)
FIRST_BATCH = 4
DATA_MAX = 8 << 30
FILE_MAX = 4 << 30
LIMIT_FACTOR, LIMIT_LEAST_S = 8, 15


def rooms_below(room):
    """What a room stands on; public headers of the verbs stand for the rooms behind them."""
    words = house.ROOMS[room][0].split()
    below = [word for word in words if word in house.ROOMS]
    if 'abi' in words and room not in ('verbs', 'cm'):
        below += ['verbs', 'cm']
    return below


def rooms_above(room):
    """The rooms that stand on this one, nearest first."""
    users = collections.defaultdict(list)
    for upper in house.ROOMS:
        for lower in rooms_below(upper):
            users[lower].append(upper)
    order, queue = [], [room]
    while queue:
        for upper in users[queue.pop(0)]:
            if upper not in order and upper != room:
                order.append(upper)
                queue.append(upper)
    return order


class Test:
    def __init__(self, facts, program):
        self.name = facts['name']
        self.folder = self.name.split('/')[0]
        self.command = facts['cmd']
        self.environment = facts['env']
        self.is_alone = not facts['is_parallel']
        self.program = program  # the target to build; None: everything that is no test
        self.seconds = None     # how long it takes unmutated; None: not known
        self.kills = 0

    @property
    def limit(self):
        return max(LIMIT_LEAST_S, LIMIT_FACTOR * self.seconds)

    @property
    def rank(self):
        return -self.kills, self.seconds


def confinement():
    """What keeps a mutant's kill(-1) and its orphans to itself: a PID namespace; None: no such."""
    tried = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
    if os.geteuid() != 0:
        tried[1:1] = ['--user', '--map-current-user']
    try:
        works = subprocess.run([*tried, 'true'], capture_output=True).returncode == 0
    except OSError:
        works = False
    return tried if works else None


class Trial:
    """The tests, what is known of them, and how to run them on what the workshop holds."""

    def __init__(self, workshop, known, is_own, seconds_max, say):
        self.workshop = workshop
        self.known = known  # name -> seconds unmutated
        self.is_own = is_own  # only the room's own tests
        self.seconds_max = seconds_max
        self.say = say
        self.confined = confinement()
        self.left_out = {}  # name -> why
        targets = workshop.targets()
        programs = {str(workshop.build.resolve() / file): file for _, file in targets}
        self.everything_else = [file for name, file in targets
                                if not name.startswith(('test_', 'replay_', 'fuzz_', 'bench-'))]
        self.tests = [Test(facts, programs.get(facts['cmd'][0])) for facts in workshop.tests()
                      if facts['name'].split('/')[0] not in NO_TESTS and not is_soak(facts)]

    # --- order

    def groups(self, room):
        """Lists of tests that a mutant of this room meets one after the other."""
        folder = room.split('/')[0]
        programs = [test for test in self.tests if test.program]
        scripts = [test for test in self.tests if not test.program]
        above = rooms_above(room)
        folders = list(dict.fromkeys([folder] + [upper.split('/')[0] for upper in above]))
        folders += [name for name, words in STAND_ON.items()
                    if name not in folders and set(words.split()) & {room, *above}]
        yield [test for test in programs if test.folder == folder]
        yield [test for test in programs if test.folder == 'fuzz']
        yield [test for test in scripts if test.folder == folder]
        if self.is_own:
            return
        for name in folders[1:]:
            yield [test for test in programs if test.folder == name]
        for name in folders[1:]:
            yield [test for test in scripts if test.folder == name]

    def measure(self, tests):
        """Runs those of unknown length unmutated; those that fail or take too long are left out."""
        fresh = [test for test in tests if test.seconds is None and test.name not in self.left_out]
        unknown = [test for test in fresh if test.name not in self.known]
        if unknown:
            self.say(f'measuring {len(unknown)} tests of {unknown[0].folder} unmutated')
            self.workshop.restore()
            if not self.workshop.make(self._targets(unknown)):
                raise Broken('the unmutated tree does not build')
        for test in unknown:
            began = time.monotonic()
            ended = self._run([test], lambda _: self.seconds_max * 2)
            if ended and ended[0][1] == 'time':
                self.known[test.name] = self.seconds_max * 2
            elif ended:
                self.left_out[test.name] = 'fails unmutated'
            else:
                self.known[test.name] = time.monotonic() - began
        for test in fresh:
            if test.name in self.known and self.known[test.name] > self.seconds_max:
                self.left_out[test.name] = f'takes more than {self.seconds_max} s'
            elif test.name in self.known:
                test.seconds = self.known[test.name]
        return sorted((test for test in tests if test.seconds is not None),
                      key=lambda test: test.rank)

    def _targets(self, tests):
        targets = [test.program for test in tests if test.program]
        if len(targets) < len(tests) or any(test.folder in ('node', 'initiator') for test in tests):
            targets += self.everything_else
        return targets

    # --- one mutant

    def judge(self, mutant):
        """(verdict, by what): killed, survived, equivalent or stillborn."""
        workshop = self.workshop
        is_changed = False
        workshop.mutate(mutant)
        own = workshop.objects.get(str(mutant.path), [])
        if own:
            if not workshop.make(own):
                return 'stillborn', None
            if not workshop.differs(mutant):
                return 'equivalent', None
            is_changed = True
        for group in self.groups(mutant.room):
            if any(test.seconds is None and test.name not in self.left_out for test in group):
                self.measure(group)
                workshop.mutate(mutant)
            known = sorted((test for test in group if test.seconds is not None),
                           key=lambda test: test.rank)
            batches = [known[:FIRST_BATCH], known[FIRST_BATCH:4 * FIRST_BATCH],
                       known[4 * FIRST_BATCH:]]
            for batch in filter(None, batches):
                if not workshop.make(self._targets(batch)):
                    return 'stillborn', None
                killers = self._run(batch, lambda test: test.limit)
                if killers:
                    killers[0][0].kills += 1
                    return 'killed', ' '.join((killers[0][0].name, killers[0][1])).strip()
        is_changed = is_changed or workshop.differs(mutant)
        return ('survived' if is_changed else 'equivalent'), None

    def _run(self, tests, limit_of):
        """[(test, how)] of the first test that did not pass; empty if all did. Two at a time."""
        waiting = list(tests)
        running = []
        failed = []
        while waiting or running:
            while waiting and not failed and len(running) < self.workshop.jobs:
                is_alone = waiting[0].is_alone or any(run.test.is_alone for run in running)
                if is_alone and running:
                    break
                running.append(Running(waiting.pop(0), self, limit_of))
            if failed:
                waiting = []
            for run in list(running):
                how = run.ended()
                if how is None:
                    continue
                running.remove(run)
                if how != 'passed':
                    failed.append((run.test, how))
            if failed:
                for run in running:
                    run.stop()
                return failed
            time.sleep(0.005)
        return failed


def is_soak(facts):
    return any(suite.split(':')[-1] == 'soak' for suite in facts['suite'])


class Running:
    """One test that runs, in a scratch folder, a session and (where possible) a PID namespace."""

    def __init__(self, test, trial, limit_of):
        self.test = test
        self.deadline = time.monotonic() + limit_of(test)
        self.scratch = tempfile.TemporaryDirectory(prefix='weft-mutant-',
                                                   ignore_cleanup_errors=True)
        environment = {**os.environ, **test.environment, 'TMPDIR': self.scratch.name}
        self.process = subprocess.Popen(
            [*(trial.confined or []), *test.command], env=environment, start_new_session=True,
            cwd=trial.workshop.build, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=bounded)

    def ended(self):
        """None while it runs; 'passed', '' (it failed) or 'time'."""
        status = self.process.poll()
        if status is None and time.monotonic() < self.deadline:
            return None
        self.stop()
        if status is None:
            return 'time'
        return 'passed' if status in (0, 77) else ''

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.scratch.cleanup()


def bounded():
    """No mutant takes the machine's memory or disk with it."""
    for limit, value in ((resource.RLIMIT_DATA, DATA_MAX), (resource.RLIMIT_FSIZE, FILE_MAX),
                         (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
