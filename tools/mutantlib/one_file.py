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
import json
import math
import pathlib
import re
import shlex
import subprocess
import tempfile

from lintlib.tree import Tree

from . import quick, twins
from .choice import function_of, header_text, refused, STRICT, with_choices
from .coverage import Probes
from .draw import draw_file, every_of
from .pool import Pool
from .workshop import Broken

# Of a program, by what it takes without a mutant: of the processors, and without doing anything.
LIMIT_FACTOR, LEAST_CPU_S, LEAST_STILL_S = 8, 0.3, 2
UNMUTATED_S = 60
SWIFT = ['-O0', '-g0']  # what is compiled once, for a program of milliseconds


class Refused(Exception):
    """What the compiler said."""


class Build:
    """The user's, and what is made anew beside it."""

    def __init__(self, path):
        self.path = path
        # As deep as the programs are, whose libraries are found from there.
        self.scratch = tempfile.TemporaryDirectory(prefix='mutants-', dir=path)
        self.folder = pathlib.Path(self.scratch.name)
        self.folder.chmod(0o755)  # some tests go on as another user
        self.tests = json.loads(self._said('meson', 'introspect', path, '--tests'))
        self.commands = json.loads((path / 'compile_commands.json').read_text())

    def _said(self, *words):
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                                errors='replace', cwd=self.path)
        if result.returncode != 0:
            raise Broken(f'{" ".join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr}')
        return result.stdout

    def facts_of(self, name):
        """Of a test by its name, node/ring or node/test_ring."""
        plain = name.replace('/test_', '/')
        for facts in self.tests:
            program = pathlib.Path(facts['cmd'][0])
            if facts['name'] == plain and program.is_relative_to(self.path):
                return facts
        raise Broken(f'{name} is no program among the tests')

    def make(self, all_facts):
        """Builds these tests' programs."""
        self._said('ninja', '-C', self.path, *(facts['cmd'][0][len(f'{self.path}/'):]
                                               for facts in all_facts))

    def link_of(self, facts):
        """The words that link a test's program."""
        program = pathlib.Path(facts['cmd'][0]).relative_to(self.path)
        line = self._said('ninja', '-C', self.path, '-t', 'commands', program).splitlines()[-1]
        return shlex.split(line.replace('\\$', '$'))

    def compiler_of(self, path, link):
        """(words, object): the command for a file and what it makes, that of a program's own if it
        has one."""
        found = [command for command in self.commands
                 if (self.path / command['file']).resolve() == path.resolve()]
        if not found:
            raise Broken(f'{path} is not compiled here')
        command = next((one for one in found if one['output'] in link), found[0])
        return shlex.split(command['command']), command['output']

    def objects_of(self, path):
        """All that are made of a file: a test may have one of its own."""
        return {self.path / command['output'] for command in self.commands
                if (self.path / command['file']).resolve() == path.resolve()}

    def compile(self, command, text, name, *more):
        """The object of a file's command, if the file had this text: read from no file, whose name
        would stand in the object. Nothing is left for the linker to optimise: such objects hold
        words by chance, so none is like another."""
        made = self.folder / f'{name}.o'
        words = []
        for word in command[:command.index('-c')]:
            if words[-1:] == ['-o']:
                words[-1:] = []
            elif words[-1:] in (['-MQ'], ['-MF']):
                words[-1:] = []
            elif word != '-MD':
                words.append(word)
        words += ['-Wno-error', '-fno-lto', *more, '-o', made, '-c', '-x', 'c', '-']
        result = subprocess.run(words, cwd=self.path, input=text, capture_output=True, text=True,
                                errors='replace')
        if result.returncode != 0:
            raise Refused(result.stderr)
        return made

    def link(self, link, instead_of, made, name):
        """The program with that object."""
        program = self.folder / name
        words = list(link)
        words[words.index('-o') + 1] = str(program)
        if instead_of in words:
            words[words.index(instead_of)] = str(made)
        else:
            words.insert(next(at for at, word in enumerate(words) if word.endswith('.c.o')),
                         str(made))
        self._said(*words)
        return program


class Program:
    """Of a test, with all mutants of the file in it."""

    def __init__(self, facts, command, link, instead_of, path):
        self.name = facts['name']
        self.facts = facts
        self.command = command        # that compiles the file for it
        self.link = link              # ... and links it
        self.instead_of = instead_of  # ... with another object in place of this
        self.path = path
        self.seen = self.seconds = self.limits = None  # what it does without a mutant
        self.met = self.kills = 0

    def order(self, build, number, path=None):
        """What a worker is told. A mutant that is alone in its program needs no choice, and takes
        no harm by it."""
        return {'command': [str(path or self.path), *self.facts['cmd'][1:]], 'folder': str(build),
                **self.limits, 'environment': {**self.facts['env'], 'MUTANT': str(number)}}


class OneFile:
    """Judges the mutants of one file by these tests."""

    def __init__(self, root, build, path, seed, jobs, say):
        self.build = Build(build)
        self.source = next((source for source in Tree(root).c_files if str(source.path) == path),
                           None)
        if not self.source or self.source.path.suffix != '.c':
            raise Broken(f'{path} is no C file of this tree')
        self.root = root
        self.say = say
        self.jobs = jobs
        self.pool = Pool(jobs)
        self.probes = Probes(root, [self.source.room], {path})
        self.mutants = draw_file(self.source, seed) if seed else every_of(self.source)
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
        self.build.make([self.build.facts_of(name)])
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
        all_facts = [self.build.facts_of(name) for name in names]
        self.build.make(all_facts)
        return [self._program(facts) for facts in all_facts]

    def _linked(self, names):
        """Those of them that can be had: a program may have a function of such a name, and not what
        the file needs."""
        found = []
        for name in names:
            try:
                found += self.programs([name])
            except Broken:
                self.say(f'left out: {name} does not link with the file')
        return found

    def _program(self, facts):
        link = self.build.link_of(facts)
        command, instead_of = self.build.compiler_of(self.root / self.source.path, link)
        name = re.sub(r'[^a-z0-9]', '_', facts['name'])
        path = self.build.link(link, instead_of, self._with_all(command, instead_of),
                               f'{self.tag}.{name}')
        return Program(facts, command, link, instead_of, path)

    def _unmutated(self, programs, longest_s):
        """[(program, how it ends)], with what each executes and how long it takes."""
        orders = []
        for program in programs:
            seen = program.path.with_suffix('.seen')
            self.probes.map(seen)
            program.limits = {'cpu_s': longest_s, 'still_s': longest_s}
            orders.append(program.order(self.build.path, 0))
            orders[-1]['environment']['MUTANT_SEEN'] = str(seen)
        of_order = {order['command'][0]: program for order, program in zip(orders, programs)}
        found = []
        for order, said in self.pool.ends(orders):
            program = of_order[order['command'][0]]
            program.seen = self.probes.seen(program.path.with_suffix('.seen'))
            program.seconds = said['seconds']
            program.limits = {'cpu_s': LEAST_CPU_S + LIMIT_FACTOR * said['cpu_s'],
                              'still_s': LEAST_STILL_S + LIMIT_FACTOR * said['seconds']}
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
        return self.build.objects_of(self.root / self.source.path)

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
        command, _ = self.build.compiler_of(self.root / self.source.path, [])

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

    def report(self):
        """What lives, each as a diff if a test executed its place, and how many were killed."""
        living = sorted(self.alive + self.alone, key=lambda mutant: mutant.start)
        lines = [f'survived: {mutant}\n{mutant.diff}' for mutant in living
                 if self.met[mutant]]
        lines += [f'unreached: {mutant} in {mutant.function}' for mutant in living
                  if not self.met[mutant]]
        counted = len(self.killed) + len(living)
        rate = f' ({100 * len(self.killed) / counted:.0f} %)' if counted else ''
        lines.append(f'{self.source.path}: {len(self.killed)} of {counted} killed{rate}, '
                     f'{self.by_time} of them by time; {len(self.equivalent)} equivalent, '
                     f'{len(self.stillborn)} stillborn')
        return '\n'.join(lines)


def plain_text(source, mutant):
    """The file with a mutant, or none, and nothing else."""
    return f'{STRICT}# 1 "{source.path}"\n{mutant.text if mutant else source.text}'


def judge(root, build, path, names, seed, jobs, say):
    """The report on a file's mutants before these tests, or the quick ones that hold the file:
    those that a seed draws, or all."""
    one = OneFile(root, build, path, seed, jobs, say)
    with one.build.scratch:
        try:
            if names == ['auto']:
                quick.meet_likeliest(one)
            for name in names if names != ['auto'] else []:
                say(f'{path} before {name}')
                one.meet(name)
        finally:
            one.pool.end()
        one.sift()
        return one.report()
