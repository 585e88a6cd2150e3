"""One file's mutants before a few programs: one of each line, all in one object with a switch.

A build of the user's has the programs. The file is compiled once more, with its mutants' bodies and
probes in it, and its object is linked before the libraries, or in place of the object made of the
same file: nothing else is built, and a mutant costs what the program takes. So who writes a test
sees within seconds what it does not see. What is changed outside of functions is compiled and
linked by itself.
"""

from concurrent import futures
import json
import pathlib
import re
import shlex
import subprocess
import tempfile

from lintlib.tree import Tree

from .choice import function_of, header_text, refused, STRICT, with_choices
from .coverage import Probes
from .draw import draw_file
from .run import Runner, Test
from .workshop import Broken

# Endless loops are what takes long here: programs are quick.
LIMIT_FACTOR, LIMIT_LEAST_S = 10, 4
UNMUTATED_S = 60


class Refused(Exception):
    """What the compiler said."""


class Meeting(Test):
    """A test as it is run with one mutant, or none."""

    def __init__(self, facts, build, executable, mutant):
        super().__init__({**facts, 'cmd': [str(executable), *facts['cmd'][1:]]}, executable, build)
        self.mutant = mutant


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

    def link_of(self, facts):
        """The words that link a test's program, which is built."""
        program = pathlib.Path(facts['cmd'][0]).relative_to(self.path)
        self._said('ninja', '-C', self.path, program)
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


class OneFile:
    """Judges the mutants of one file by these tests."""

    def __init__(self, root, build, path, seed, jobs, say):
        self.root = root
        self.build = Build(build)
        self.source = next((source for source in Tree(root).c_files if str(source.path) == path),
                           None)
        if not self.source or self.source.path.suffix != '.c':
            raise Broken(f'{path} is no C file of this tree')
        self.say = say
        self.jobs = jobs
        self.runner = Runner(jobs)
        self.probes = Probes(root, [self.source.room], {path})
        self.mutants = draw_file(self.source, seed)
        self.alive = [mutant for mutant in self.mutants if function_of(self.source, mutant)]
        self.alone = [mutant for mutant in self.mutants if mutant not in self.alive]
        self.stillborn, self.equivalent, self.killed = [], [], {}
        self.reached = set()
        self.by_time = 0
        self.tag = re.sub(r'\W', '_', path)
        self.header = self.build.folder / f'{self.tag}.choice.h'
        self.header.write_text(header_text(self.probes.count, self.build.folder / 'none',
                                           self.build.folder / 'none'))

    def meet(self, name):
        """All that live yet meet this test."""
        facts = self.build.facts_of(name)
        link = self.build.link_of(facts)
        command, instead_of = self.build.compiler_of(self.root / self.source.path, link)
        tag = f'{self.tag}.{re.sub(r"[^a-z0-9]", "_", name)}'
        program = self.build.link(link, instead_of, self._with_all(command, tag), tag)
        seen, limit_s = self._unmutated(facts, program)
        meetings = []
        for mutant in self.alive:
            mask = self.probes.mask_of(str(self.source.path), mutant.start, [])
            if mask is None or mask & seen:
                meetings.append(Meeting(facts, self.build.path, program, mutant))
        meetings += self._meetings_alone(facts, command, link, instead_of)
        for test, how, _ in self.runner.outcomes(meetings, lambda _: limit_s, environment_of):
            self.reached.add(test.mutant)
            if how in ('failed', 'time'):
                self.killed[test.mutant] = name
                self.by_time += how == 'time'
        self.alive = [mutant for mutant in self.alive if mutant not in self.killed]
        self.alone = [mutant for mutant in self.alone if mutant not in self.killed]
        self._sift(command)

    def _with_all(self, command, tag):
        """The object in which those that live can be chosen; it is known then which compile."""
        while True:
            try:
                return self.build.compile(
                    command, with_choices(self.source, self.header, self.alive, self.probes), tag)
            except Refused as refusal:
                numbers = refused(str(refusal))
                dead = [mutant for mutant in self.alive if mutant.number in numbers]
                if not dead:
                    raise Broken(f'{self.source.path} does not compile with its mutants\n'
                                 f'{str(refusal)[-3000:]}') from refusal
                self.stillborn += dead
                self.alive = [mutant for mutant in self.alive if mutant not in dead]

    def _unmutated(self, facts, program):
        """What a test executes, and how long it may take with a mutant."""
        seen = self.build.folder / f'{program.name}.seen'
        self.probes.map(seen)
        _, how, seconds = next(self.runner.outcomes(
            [Meeting(facts, self.build.path, program, None)], lambda _: UNMUTATED_S,
            lambda _: {'MUTANT': '0', 'MUTANT_SEEN': str(seen)}))
        if how != 'passed':
            raise Broken(f'{facts["name"]} does not pass without a mutant: {how}')
        return self.probes.seen(seen), max(LIMIT_LEAST_S, LIMIT_FACTOR * seconds)

    def _meetings_alone(self, facts, command, link, instead_of):
        def built(mutant):
            tag = f'{self.tag}.{mutant.number}'
            try:
                made = self.build.compile(command, self._alone(mutant), tag)
            except Refused:
                return None
            return self.build.link(link, instead_of, made, f'{tag}.program')

        with futures.ThreadPoolExecutor(self.jobs) as pool:
            programs = dict(zip(self.alone, pool.map(built, self.alone)))
        self.stillborn += [mutant for mutant, program in programs.items() if not program]
        self.alone = [mutant for mutant in self.alone if programs[mutant]]
        return [Meeting(facts, self.build.path, programs[mutant], mutant) for mutant in self.alone]

    def _alone(self, mutant):
        return f'{STRICT}# 1 "{self.source.path}"\n{mutant.text}'

    def _sift(self, command):
        """Takes away those that live whose objects are what they are without a mutant."""
        def made(mutant):
            text = self._alone(mutant) if mutant else \
                f'{STRICT}# 1 "{self.source.path}"\n{self.source.text}'
            name = f'{self.tag}.{mutant.number if mutant else "plain"}.sifted'
            return self.build.compile(command, text, name, '-g0').read_bytes()

        living = self.alive + self.alone
        plain = made(None)
        with futures.ThreadPoolExecutor(self.jobs) as pool:
            same = {mutant for mutant, octets in zip(living, pool.map(made, living))
                    if octets == plain}
        self.equivalent += [mutant for mutant in living if mutant in same]
        self.alive = [mutant for mutant in self.alive if mutant not in same]
        self.alone = [mutant for mutant in self.alone if mutant not in same]

    def report(self):
        """What lives, each as a diff if a test executed its place, and how many were killed."""
        living = sorted(self.alive + self.alone, key=lambda mutant: mutant.start)
        lines = [f'survived: {mutant}\n{mutant.diff}' for mutant in living
                 if mutant in self.reached]
        lines += [f'unreached: {mutant} in {mutant.function}' for mutant in living
                  if mutant not in self.reached]
        counted = len(self.killed) + len(living)
        rate = f' ({100 * len(self.killed) / counted:.0f} %)' if counted else ''
        lines.append(f'{self.source.path}: {len(self.killed)} of {counted} killed{rate}, '
                     f'{self.by_time} of them by time; {len(self.equivalent)} equivalent, '
                     f'{len(self.stillborn)} stillborn')
        return '\n'.join(lines)


def environment_of(meeting):
    """A mutant that is alone in its program needs no choice, and takes no harm by it."""
    return {'MUTANT': str(meeting.mutant.number)}


def judge(root, build, path, names, seed, jobs, say):
    """The report on a file's mutants before these tests."""
    one = OneFile(root, build, path, seed, jobs, say)
    with one.build.scratch:
        for name in names:
            say(f'{path} before {name}')
            one.meet(name)
        return one.report()
