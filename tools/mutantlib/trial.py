"""Which tests a mutant meets, in which order, and what they say of it."""

import collections
from concurrent import futures
import json
import threading
import time

from lintlib import house

from .workshop import Broken

# Folders of tests that are of no room of their own, and the rooms that they stand on.
STAND_ON = {'judges': 'verbs cm', 'siw': 'verbs cm', 'conformance': 'verbs cm',
            'examples': 'verbs cm sim'}
FIRST_BATCH, BATCH, UNKNOWN_BATCH = 4, 12, 16
STILLBORN = 'stillborn'


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


def executes(test, mask):
    """Whether a test is known to execute what stands behind the probes of `mask`."""
    return mask is None or (test.seen is not None and test.seen & mask != 0)


def in_turn(tests):
    """One case of each script, then a second of each: those of one script see much the same."""
    rounds, begun = [], collections.Counter()
    for test in tests:
        rounds.append(begun[test.whole])
        begun[test.whole] += 1
    return [test for _, test in sorted(zip(rounds, tests), key=lambda pair: pair[0])]


def best_first(tests, mutant):
    """The cheapest first; each case of a script that comes before makes the next less likely to see
    what those did not."""
    begun = collections.Counter()
    costs = []
    for test in sorted(tests, key=lambda test: test.rank(mutant)):
        costs.append((test.rank(mutant) * (1 + begun[test.whole] / 4), len(costs), test))
        begun[test.whole] += 1
    return [test for _, _, test in sorted(costs)]


class Standing:
    """What earlier runs know of tests: a script's cases, and how many mutants of each file a test
    met and killed."""

    def __init__(self, path):
        self.path = path
        kept = json.loads(path.read_text()) if path.is_file() else {}
        self.cases = kept.get('cases', {})
        self.counts = kept.get('counts', {})
        self.tests = []

    def cases_of(self, test, now, confined):
        if self.cases.get(test.whole, [None])[0] != now:
            self.cases[test.whole] = [now, [case.case for case in test.cases(confined)]]
        return [test.of_case(case) for case in self.cases[test.whole][1]]

    def lend(self, tests):
        """These count on from there."""
        self.tests = tests
        for test in tests:
            for path, (met, killed) in self.counts.get(test.name, {}).items():
                test.mutants_of[path], test.kills_of[path] = met, killed
            test.mutants, test.kills = test.mutants_of.total(), test.kills_of.total()

    def save(self):
        for test in self.tests:
            if test.mutants_of:
                self.counts[test.name] = {path: [met, test.kills_of[path]]
                                          for path, met in test.mutants_of.items()}
        self.path.write_text(json.dumps({'cases': self.cases, 'counts': self.counts}))


class Trial:
    """The tests, what is known of them, and how a mutant fares before them."""

    def __init__(self, plain, chosen, coverage, runner, is_own, seconds_max, reach_max,
                 patience_s, say):
        self.plain = plain    # gives where objects are looked at
        self.chosen = chosen  # where tests run
        self.coverage = coverage
        self.runner = runner
        self.is_own = is_own  # only the room's own tests
        self.seconds_max = seconds_max
        self.reach_max = max(reach_max, seconds_max)  # of tests for what no quicker one executes
        self.patience_s = patience_s  # how long one mutant meets tests
        self.lock = threading.Lock()  # of who measures, or asks whether a test is sound
        self.say = say
        self.left_out = {}  # name -> why
        self.unsteady = set()  # tests that failed once, and passed when the mutant met them again
        self.sound = {}  # name -> whether it passes where tests run
        self.tests = runner.tests_of(chosen)
        self.standing = Standing(coverage.folder / 'standing.json')

    def part_scripts(self):
        """From now on a script is met case by case; all is built that they run."""
        with futures.ThreadPoolExecutor(self.chosen.jobs) as pool:
            parted = pool.map(self._cases_of, self.tests)
            self.tests = [case for cases in parted for case in cases]
        self.standing.lend(self.tests)

    def _cases_of(self, test):
        return self.standing.cases_of(test, self.chosen.id_of(test), self.runner.confined)

    # --- order

    def groups(self, room, has_scripts=True):
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
        if not self.is_own:
            yield [test for test in programs if test.folder in folders[1:]]
        if not has_scripts:
            return
        yield [test for test in scripts if test.folder == folder]
        if not self.is_own:
            yield [test for test in scripts if test.folder in folders[1:]]
            # A library that is loaded by name is below nobody's rooms.
            yield [test for test in self.tests if test.folder not in (*folders, 'fuzz')]

    def reaching(self, group, mutant, mask, is_slow):
        """Those of a group that may see a change behind the probes of `mask`, best first."""
        is_stray = mask is not None and mask & self.coverage.stray
        return best_first([test for test in group
                           if test.seconds is not None and test.name not in self.left_out and
                           (is_slow or test.seconds <= self.seconds_max) and
                           (test.seen is None or executes(test, mask) or
                            (is_stray and not test.program))], mutant)

    def targets_for(self, mutants):
        """The product, and the tests that any of these may meet: links are most of a build."""
        programs = {test.program: None for room in dict.fromkeys(one.room for one in mutants)
                    for group in self.groups(room) for test in group if test.program}
        return [*self.runner.everything_else, *programs]

    # --- unmutated

    def measure(self, tests, is_slow):
        """What they execute and how long they take; left out are those that say nothing here. What
        is too long for a quick test is known by that, once, until a mutant needs slow ones."""
        limit_s = self.reach_max if is_slow else self.seconds_max
        with self.lock:
            fresh = [test for test in tests if self.is_fresh(test, is_slow)]
            unknown = [test for test in fresh if not self.is_known(test, limit_s)]
            if unknown:
                self.say(f'running {len(unknown)} tests of {unknown[0].folder}… unmutated')
                self.make_unmutated(unknown)
                self.coverage.measure(unknown, self.runner, limit_s)
            for test in fresh:
                record = self.coverage.record(test)
                if record['how'] == 'passed' and record['seconds'] <= self.reach_max:
                    test.seen = self.coverage.seen_by(test)
                    test.seconds = record['seconds']
                elif record['how'] == 'time' and record['seconds'] < self.reach_max:
                    test.is_long = True
                else:
                    self.left_out[test.name] = {'skipped': 'skips here', 'failed': 'fails unmutated'
                                                }.get(record['how'], f'takes > {self.reach_max} s')

    def is_fresh(self, test, is_slow):
        """Whether this run needs to look at it yet."""
        return (test.seconds is None and test.name not in self.left_out
                and (is_slow or not test.is_long))

    def is_known(self, test, limit_s):
        """Whether an earlier look tells what this one would."""
        record = self.coverage.record(test)
        return record and (record['how'] != 'time' or record['seconds'] >= limit_s)

    def make_unmutated(self, tests):
        """What was built alone for a mutant is put back."""
        if self.chosen.mutant:
            self.chosen.choose(None)
            if not self.chosen.make(self.runner.targets_of(tests)):
                raise Broken('the unmutated tree does not build')

    def is_sound(self, test, mutant):
        """Whether a test that fails with a mutant passes where none is chosen. It is asked twice:
        what a busy machine fails once would be missing for the rest of the run."""
        with self.lock:
            if test.name not in self.sound:
                self.make_unmutated([test])
                self.sound[test.name] = any(how == 'passed' for _ in range(2)
                                            for _, how, _ in self._ends([test], None))
                if not self.chosen.has(mutant):
                    self.chosen.choose(mutant)
                    self.chosen.make(self.runner.targets_of([test]))
            return self.sound[test.name]

    # --- one mutant

    def judge_by_programs(self, mutant, met_before):
        """As judge, before the quick tests that are no scripts; None: it lives yet."""
        met = dict(met_before)
        killer, _ = self.face(mutant, met, False, has_scripts=False)
        return ('killed', killer, {}) if killer else (None, None, met)

    def judge(self, mutant, met_before):
        """(verdict, by what, {test: id} that it met): killed, survived, equivalent, stillborn. What
        the objects of a C file tell has been asked before."""
        mask = self.mask_of(mutant)
        met = dict(met_before)
        spent_s = 0
        for is_slow in (False, True):
            if is_slow and self.count_of(met, mask):
                break  # quicker ones execute it
            killer, spent_s = self.face(mutant, met, is_slow, spent_s)
            if killer == STILLBORN:
                return STILLBORN, None, {}
            if killer:
                return 'killed', killer, {}
        if mutant.path.suffix == '.h':
            is_equivalent = self.plain().is_equivalent(mutant, self.chosen.objects_of(mutant))
            if is_equivalent is not False:
                return 'equivalent' if is_equivalent else STILLBORN, None, {}
        count = self.count_of(met, mask)
        of = f' of {self.reached_by(mask)}' if spent_s > self.patience_s else ''
        return 'survived', f'met {count}{of}' if count else 'unreached', met

    def count_of(self, met, mask):
        return sum(test.name in met and executes(test, mask) for test in self.tests)

    def reached_by(self, mask):
        return sum(executes(test, mask) for test in self.tests)

    def mask_of(self, mutant):
        users = self.chosen.users_of(mutant.path)
        return self.chosen.probes.mask_of(str(mutant.path), mutant.start, users)

    def face(self, mutant, met, is_slow, spent_s=0, has_scripts=True):
        """(who kills, or STILLBORN, or None; the seconds that it met tests)"""
        mask = self.mask_of(mutant)
        for batch in self.batches(mutant, mask, met, is_slow, has_scripts):
            if spent_s > self.patience_s:
                break
            if not self.chosen.has(mutant) and not self.chosen.make(self.runner.targets_of(batch)):
                return STILLBORN, spent_s
            begun = time.monotonic()
            killer = self.meet(mutant, batch, met)
            spent_s += time.monotonic() - begun
            if killer:
                return killer, spent_s
        return None, spent_s

    def batches(self, mutant, mask, met, is_slow, has_scripts):
        """Lists of tests that it is to meet: first those that are known, then a few at a time those
        that are not, which run unmutated before, so that who dies early costs no more of these."""
        for group in self.groups(mutant.room, has_scripts):
            limit_s = self.reach_max if is_slow else self.seconds_max
            self.measure([test for test in group if self.is_known(test, limit_s)], is_slow)
            unknown = in_turn([test for test in group if self.is_fresh(test, is_slow)])
            for some in [group] + [unknown[at:at + UNKNOWN_BATCH]
                                   for at in range(0, len(unknown), UNKNOWN_BATCH)]:
                if some is not group:
                    self.measure(some, is_slow)
                if self.runner.mutants_max == 1 or not self.chosen.has(mutant):
                    self.chosen.choose(mutant)
                tests = [test for test in self.reaching(some, mutant, mask, is_slow)
                         if met.get(test.name) != self.chosen.id_of(test)]
                yield from filter(None, [tests[:FIRST_BATCH]] + [
                    tests[at:at + BATCH] for at in range(FIRST_BATCH, len(tests), BATCH)])

    def meet(self, mutant, batch, met):
        """Who kills, and how; those that pass or skip are noted as met, or not."""
        left = list(batch)
        while left:
            failed = self.first_failure(mutant, left, met)
            if failed and self.is_confirmed(mutant, failed[0], met):
                return f'{failed[0].name} time' if failed[1] == 'time' else failed[0].name
        return None

    def first_failure(self, mutant, left, met):
        """(test, how), or None; takes from `left` what has ended. What still runs is stopped, so
        that who is asked a second time finds places free."""
        ends = self._ends(left, mutant)
        try:
            for test, how, _ in ends:
                left.remove(test)
                test.mutants += how != 'skipped'
                test.mutants_of[str(mutant.path)] += how != 'skipped'
                if how == 'passed':
                    met[test.name] = self.chosen.id_of(test)
                elif how != 'skipped':
                    return test, how
        finally:
            ends.close()
        return None

    def is_confirmed(self, mutant, test, met):
        """Whether it fails again, and passes unmutated."""
        if any(again == 'passed' for _, again, _ in self._ends([test], mutant)):
            self.unsteady.add(test.name)
            met[test.name] = self.chosen.id_of(test)
            return False
        if not self.is_sound(test, mutant):
            self.left_out[test.name] = 'fails in the build with choices'
            return False
        test.kills += 1
        test.kills_of[str(mutant.path)] += 1
        return True

    def _ends(self, tests, mutant):
        return self.runner.outcomes(tests, lambda test: test.limit,
                                    lambda _: self.chosen.environment_of(mutant))
