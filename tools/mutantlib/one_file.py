"""One file's mutants before a few programs: one of each line, or all, in one object with a switch.

A build of the user's has the programs. The file is compiled once more, without optimisation, with
its mutants' bodies and probes in it, and its object is linked before the libraries, or in place of
the object made of the same file: nothing else is built. Workers run each program once for each
mutant (worker.py), so that one costs some milliseconds and who writes a test sees within seconds
what it does not see. What is changed outside of functions is compiled and linked by itself. Those
that live are looked at for equivalence, all at once (twins.py).
"""

import collections
from concurrent import futures
import math
import re

from . import quick, twins
from .build import Build, Refused
from .choice import function_of, header_text, refused, STRICT, with_choices
from .coverage import Probes
from .draw import draw, draw_file, every_of
from .pool import Pool
from .workshop import Broken

# Of a program, by what it takes without a mutant: of the processors, and without doing anything,
# which is no more than was waited for it while the machine was not another's.
CPU_FACTOR, LEAST_CPU_S = 8, 0.3
STILL_FACTOR, LEAST_STILL_S = 3, 2
UNMUTATED_S = 60
SWIFT = ['-O0', '-g0']  # what is compiled once, for a program of milliseconds


class Program:
    """Of a test, with all mutants of the file in it."""

    def __init__(self, facts, command, link, instead_of, path):
        self.name = facts['name']
        self.facts = facts
        self.command = command        # that compiles the file for it
        self.link = link              # ... and links it
        self.instead_of = instead_of  # ... with another object in place of this
        self.path = path
        self.map = path.with_name(f'{path.name}.seen')
        self.seen = self.seconds = self.limits = None  # what it does without a mutant
        self.met = self.kills = 0

    def order(self, build, number, path=None):
        """What a worker is told. A mutant that is alone in its program needs no choice, and takes
        no harm by it."""
        return {'command': [str(path or self.path), *self.facts['cmd'][1:]], 'folder': str(build),
                **self.limits, 'environment': {**self.facts['env'], 'MUTANT': str(number)}}


class OneFile:
    """Judges the mutants of one file by these tests."""

    def __init__(self, bench, source, mutants):
        self.build, self.pool, self.say = bench.build, bench.pool, bench.say
        self.jobs = bench.jobs
        self.source = source
        self.file = bench.tree.root / source.path
        path = str(source.path)
        self.probes = Probes(bench.tree, [source.room], {path})
        self.mutants = mutants
        self.by_number = {mutant.number: mutant for mutant in self.mutants}
        self.alive = [mutant for mutant in self.mutants if function_of(self.source, mutant)]
        self.alone = [mutant for mutant in self.mutants if mutant not in self.alive]
        self.stillborn, self.equivalent, self.killed = [], [], {}
        self.met = collections.Counter()  # by how many programs that execute it
        self.by_time = 0
        self.made = {}  # (object that it stands for, mutant or None for all) -> object
        self.tag = re.sub(r'\W', '_', path)
        self.header = self.build.folder / f'{self.tag}.choice.h'
        self.header.write_text(header_text(self.probes.count, self.build.folder / 'none',
                                           self.build.folder / 'none'))

    def meet(self, name):
        """All that live yet meet this test."""
        self.build.make([name])
        if quick.stands_in(self.build, name, self.made_by_build()):
            self.say(f'{name} has functions of its own in place of the file\'s')
            return
        program, = self.programs([name])
        (_, how), = self._unmutated([program], UNMUTATED_S)
        if how != 'passed':
            raise Broken(f'{name} does not pass without a mutant: {how}')
        self.meet_choosable(program, math.inf)
        self.meet_alone(program)

    def quick_ones(self, names, longest_s):
        """The programs of these tests that pass in so many seconds."""
        found = self._unmutated(self._linked(names), longest_s)
        for program, how in found:
            if how != 'passed':
                self.say(f'left out: {program.name}: {how}')
        return [program for program, how in found if how == 'passed']

    def programs(self, names):
        """These tests' programs, with all mutants in them."""
        self.build.make(names)
        return [self._program(name) for name in names]

    def _linked(self, names):
        """Those of them that can be had: a program may have a function of such a name, and not what
        the file needs."""
        found = []
        self.build.make(names)
        for name in names:
            try:
                found += self.programs([name])
            except Broken:
                self.say(f'left out: {name} does not link with the file')
        return found

    def _program(self, name):
        facts, link = self.build.facts_of(name), self.build.link_of(name)
        command, instead_of = self.build.compiler_of(self.file, link)
        path = self.build.link(link, instead_of, self._with_all(command, instead_of),
                               f'{self.tag}.{re.sub(r"[^a-z0-9]", "_", facts["name"])}')
        return Program(facts, command, link, instead_of, path)

    def _unmutated(self, programs, longest_s):
        """[(program, how it ends)], with what each executes and how long it takes."""
        orders = []
        for program in programs:
            self.probes.map(program.map)
            program.limits = {'cpu_s': longest_s, 'still_s': longest_s}
            orders.append(program.order(self.build.path, 0))
            orders[-1]['environment']['MUTANT_SEEN'] = str(program.map)
        of_order = {order['command'][0]: program for order, program in zip(orders, programs)}
        found = []
        for order, said in self.pool.ends(orders):
            program = of_order[order['command'][0]]
            program.seen = self.probes.seen(program.map)
            program.seconds = said['seconds']
            program.limits = {'cpu_s': LEAST_CPU_S + CPU_FACTOR * said['cpu_s'],
                              'still_s': LEAST_STILL_S + STILL_FACTOR * said['waited_s']}
            found.append((program, said['how']))
        return found

    def meet_choosable(self, program, met_max):
        """Those in functions that this program executes, which have not met as many already."""
        self._meet(program, [program.order(self.build.path, mutant.number) for mutant in self.alive
                             if self._is_met(mutant, program.seen) and self.met[mutant] < met_max])

    def meet_alone(self, program):
        """Those elsewhere: a table is read by others too."""
        made = self._programs_alone(program.command, program.link, program.instead_of)
        self._meet(program, [program.order(self.build.path, mutant.number, path)
                             for mutant, path in made.items()])

    def _meet(self, program, orders):
        for order, said in self.pool.ends(orders):
            mutant = self.by_number[int(order['environment']['MUTANT'])]
            self.met[mutant] += 1
            program.met += 1
            if said['how'] in ('failed', 'time'):
                program.kills += 1
                self.killed[mutant] = program.name
                self.by_time += said['how'] == 'time'
        self.alive = [mutant for mutant in self.alive if mutant not in self.killed]
        self.alone = [mutant for mutant in self.alone if mutant not in self.killed]

    def made_by_build(self):
        """The objects of the file that the user's build has."""
        return self.build.objects_of(self.file)

    def _is_met(self, mutant, seen):
        mask = self.probes.mask_of(str(self.source.path), mutant.start, [])
        return mask is None or bool(mask & seen)

    def _with_all(self, command, instead_of):
        """The object in which all can be chosen; it is known then which compile."""
        while (instead_of, None) not in self.made:
            text = with_choices(self.source, self.header, self.alive, self.probes)
            try:
                self.made[instead_of, None] = self.build.compile(
                    command, text, f'{self.tag}.{len(self.made)}', *SWIFT)
            except Refused as refusal:
                numbers = refused(str(refusal))
                dead = [mutant for mutant in self.alive if mutant.number in numbers]
                if not dead:
                    raise Broken(f'{self.source.path} does not compile with its mutants\n'
                                 f'{str(refusal)[-3000:]}') from refusal
                self.stillborn += dead
                self.alive = [mutant for mutant in self.alive if mutant not in dead]
        return self.made[instead_of, None]

    def _programs_alone(self, command, link, instead_of):
        """{mutant: program} of those that cannot be chosen."""
        def built(mutant):
            tag = f'{self.tag}.{mutant.number}.alone'
            try:
                if (instead_of, mutant) not in self.made:
                    self.made[instead_of, mutant] = self.build.compile(
                        command, plain_text(self.source, mutant), f'{tag}.{len(self.made)}', *SWIFT)
            except Refused:
                return None
            return self.build.link(link, instead_of, self.made[instead_of, mutant],
                                   f'{tag}.program')

        with futures.ThreadPoolExecutor(self.jobs) as threads:
            programs = dict(zip(self.alone, threads.map(built, self.alone)))
        self.stillborn += [mutant for mutant, program in programs.items() if not program]
        self.alone = [mutant for mutant in self.alone if programs[mutant]]
        return {mutant: programs[mutant] for mutant in self.alone}

    def sift(self):
        """Takes away those that live and are what the file is without a mutant."""
        command, _ = self.build.compiler_of(self.file, [])

        def made(mutant):
            name = f'{self.tag}.{mutant.number if mutant else "plain"}.sifted'
            return self.build.compile(command, plain_text(self.source, mutant), name,
                                      '-g0').read_bytes()

        same = self._twins(command)
        if self.alone:
            unmutated = made(None)
            with futures.ThreadPoolExecutor(self.jobs) as threads:
                same |= {mutant.number for mutant, octets in
                         zip(self.alone, threads.map(made, self.alone)) if octets == unmutated}
        self.equivalent += [mutant for mutant in self.alive + self.alone if mutant.number in same]
        self.alive = [mutant for mutant in self.alive if mutant.number not in same]
        self.alone = [mutant for mutant in self.alone if mutant.number not in same]

    def _twins(self, command):
        """The numbers of those in functions that are what they are without a mutant."""
        if not self.alive:
            return set()
        made = self.build.compile(command, twins.text_of(self.source, self.alive),
                                  f'{self.tag}.twins', *twins.OPTIONS)
        return twins.same(made.read_text())

    @property
    def counted(self):
        return len(self.killed) + len(self.alive) + len(self.alone)

    def report(self):
        """What lives, each as a diff if a test executed its place, and how many were killed."""
        living = sorted(self.alive + self.alone, key=lambda mutant: mutant.start)
        lines = [f'survived: {mutant}\n{mutant.diff}' for mutant in living
                 if self.met[mutant]]
        lines += [f'unreached: {mutant} in {mutant.function}' for mutant in living
                  if not self.met[mutant]]
        lines.append(f'{self.source.path}: {rate_of(len(self.killed), self.counted)}, '
                     f'{self.by_time} of them by time; {len(self.equivalent)} equivalent, '
                     f'{len(self.stillborn)} stillborn')
        return '\n'.join(lines)


def plain_text(source, mutant):
    """The file with a mutant, or none, and nothing else."""
    return f'{STRICT}# 1 "{source.path}"\n{mutant.text if mutant else source.text}'


class Bench:
    """What is read, and who is begun, once for the files that are judged: the tree, the tests of a
    build, and the workers."""

    def __init__(self, tree, build, jobs, say):
        self.tree, self.jobs, self.say = tree, jobs, say
        self.sources = {str(source.path): source for source in tree.c_files
                        if source.path.suffix == '.c'}
        self.build = Build(build)
        self.pool = Pool(jobs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.end()
        self.build.scratch.cleanup()

    def source_of(self, path):
        if path not in self.sources:
            raise Broken(f'{path} is no C file of this tree')
        return self.sources[path]

    def judge(self, source, mutants, names):
        """A file's mutants before these tests, or the quick ones that hold it."""
        one = OneFile(self, source, mutants)
        if names == ['auto']:
            quick.meet_likeliest(one)
        for name in names if names != ['auto'] else []:
            self.say(f'{source.path} before {name}')
            one.meet(name)
        one.sift()
        return one


def drawn_of(bench, arguments):
    """{source: mutants} of what is asked for: of these files, or of a seed's sample."""
    if not arguments.file:
        drawn = {}
        for mutant in draw(bench.tree, arguments.rooms, arguments.seed, arguments.count):
            drawn.setdefault(mutant.source, []).append(mutant)
        return {source: mutants for source, mutants in drawn.items()
                if str(source.path) in bench.sources}
    sources = [bench.source_of(path) for path in arguments.file.split(',')]
    return {source: every_of(source) if arguments.every else draw_file(source, arguments.seed)
            for source in sources}


def judge(tree, build, arguments, say):
    """Judges one file after another, and yields the report on each, and on the rooms."""
    rooms = {}
    with Bench(tree, build, arguments.jobs, say) as bench:
        drawn = drawn_of(bench, arguments)
        for source, mutants in sorted(drawn.items(), key=lambda of: str(of[0].path)):
            try:
                one = bench.judge(source, mutants, arguments.by.split(','))
            except Broken as broken:
                if arguments.file:
                    raise
                say(f'left out: {source.path}: {broken}')
                continue
            yield one.report()
            killed, counted = rooms.get(source.room, (0, 0))
            rooms[source.room] = killed + len(one.killed), counted + one.counted
    for room, (killed, counted) in rooms.items() if len(drawn) > 1 else []:
        yield f'{room}: {rate_of(killed, counted)}'
    if len(rooms) > 1:
        yield f'all: {rate_of(*map(sum, zip(*rooms.values())))}'


def rate_of(killed, counted):
    rate = f' ({100 * killed / counted:.0f} %)' if counted else ''
    return f'{killed} of {counted} killed{rate}'
