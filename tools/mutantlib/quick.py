"""Which programs the mutants of a file meet where nobody names them: those that are built and hold
what its object defines, the quick ones, likeliest first.

A program that defines one of the file's functions itself stands in for the file, and sees nothing
of it. What the linker has folded into its callers, as a whole, is not found.
"""

import collections
import functools
import itertools
import shutil
import subprocess

from .run import words_of

LONGEST_S = 3      # that a program takes without a mutant
START_S = 0.01     # what each costs beside
MET_MAX = 12       # programs that execute a place and do not see that it is wrong: enough
BATCH = 8          # programs that are linked and tried at a time
IN_VAIN_MAX = 3    # batches, one after the other, that kill nothing: enough
OF_TABLES_MAX = 4  # programs that meet what is linked by itself
NM = shutil.which('gcc-nm') or 'nm'  # that can read what the linker is to optimise


@functools.cache
def symbols(path, *more):
    """What an object or a program defines: functions and variables."""
    said = subprocess.run([NM, '--defined-only', *more, path], capture_output=True, text=True,
                          check=False).stdout
    found = (line.split() for line in said.splitlines())
    return {words[2].split('.')[0] for words in found
            if len(words) == 3 and words[1] in 'TtDdRrBbVvWw'}


def exported(path):
    """What others may use of an object."""
    return symbols(path, '--extern-only')


def holders(build, made, names):
    """Those of these tests whose programs hold what a file's objects define, in a shared library or
    in themselves, and there not in an object of their own that is of another file. One after the
    other: who is content with the first ones does not wait for all to be looked at."""
    wanted = set().union(*map(exported, made))
    for name in names:
        path = build.path / build.path_of(name)
        if path.is_file() and (_has_library(build, name, made) or symbols(path) & wanted
                               and not stands_in(build, name, made, wanted)):
            yield name


def _has_library(build, name, made):
    """Whether the shared libraries of a test have one of these objects."""
    outputs = {str(path.relative_to(build.path)) for path in made}
    return bool(build.library_of(build.link_of(name), outputs))


def stands_in(build, name, made, names=None):
    """Whether a test's own object, of another file, defines one of these, so that the file's has no
    part in it: that of a shared library has, which keeps its names to itself."""
    own = {build.path / word for word in build.link_of(name)
           if word.endswith('.c.o')}
    names = names or set().union(*map(exported, made))
    return (not own & made and not _has_library(build, name, made)
            and any(exported(path) & names for path in own))


def callers(build, made):
    """{test: how many of the functions that a file's objects define its own objects call}"""
    wanted = set().union(*map(exported, made))
    of_object = collections.defaultdict(set)
    for name in build.tests:
        for word in build.link_of(name):
            if word.endswith('.c.o') and (build.path / word).is_file():
                of_object[word].add(name)
    said = subprocess.run([NM, '--undefined-only', '--print-file-name', *of_object],
                          capture_output=True, text=True, check=False, cwd=build.path).stdout
    called = collections.defaultdict(set)
    for line in said.splitlines():
        path, _, symbol = line.partition(':')
        for name in of_object[path]:
            called[name] |= wanted & set(symbol.split()[-1:])
    return {name: len(symbols) for name, symbols in called.items()}


def rank(program, path):
    """Seconds that a kill may cost: by those that it killed of what it met, and by the words that
    its name shares with the file's."""
    shared = len(words_of(path) & words_of(program.name.replace('test_', '')))
    return (program.seconds + START_S) * (program.met + 2) / (program.kills + 1) / 4 ** shared


def likelihood(name, path, calls):
    """Of a test that has not run: before others those that call most of the file's functions, of
    its room, and of its words."""
    room = path.split('/')[0]
    return (-calls, not name.startswith(f'{room}/'), -len(words_of(path) & words_of(name)), name)


def meet_likeliest(one):
    """A file's mutants meet the quick ones of those that hold it, likeliest first, batch by batch,
    until none lives or the last batches have seen nothing."""
    path = str(one.source.path)
    calls = callers(one.build, one.made_by_build())
    names = sorted(one.build.tests, key=lambda name: likelihood(name, path, calls.get(name, 0)))
    left = holders(one.build, one.made_by_build(), names)
    quick, in_vain = [], 0
    while one.alive or not quick:
        batch = list(itertools.islice(left, BATCH))
        if not batch or in_vain == IN_VAIN_MAX:
            break
        found = one.quick_ones(batch, LONGEST_S)
        quick += found
        before = len(one.killed)
        _meet_batch(one, found, path)
        if found:  # who was slow or is left out has not been met
            in_vain = 0 if len(one.killed) > before else in_vain + 1
    for program in sorted(quick, key=lambda of: (-of.kills, of.seconds))[:OF_TABLES_MAX]:
        one.meet_alone(program)
    one.say(f'met {len(quick)} quick programs; by '
            + ','.join(program.name for program in quick if program.kills))


def _meet_batch(one, programs, path):
    left = list(programs)
    while left and one.alive:
        program = min(left, key=lambda candidate: rank(candidate, path))
        left.remove(program)
        one.meet_choosable(program, MET_MAX)
