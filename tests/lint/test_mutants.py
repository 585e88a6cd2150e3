#!/usr/bin/env python3
"""tools/mutants: which changes it draws, and that its verdict on a tiny tree is the right one.

Environment: WEFT_SOAK=1 (every way a tree can be judged, in place of the first two)."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = ROOT / 'tools' / 'mutants'
SOAK = os.environ.get('WEFT_SOAK', '0') not in ('', '0')
sys.path.insert(0, str(ROOT / 'tools'))

from lintlib.tree import Source, Tree  # noqa: E402
from mutantlib.choice import choices  # noqa: E402
from mutantlib.coverage import inserted, Probes  # noqa: E402
from mutantlib.draw import draw, Mutant  # noqa: E402
from mutantlib.quick import callers, likelihood  # noqa: E402
from mutantlib.sites import sites_of  # noqa: E402

# What it is about, C, and every change of it: "what stands there -> what comes instead".
CASES = [
    ('comparisons get and lose their equality', 'int f(int a, int b)\n{\n    g(a < b);\n}\n',
     ['< -> <=', 'g(a < b) -> ']),
    ('a pointer\'s star is no product', 'int f(int *a)\n{\n    char *b = *a * c;\n}\n',
     ['* -> /']),
    ('a minus sign is no difference', 'int f(void)\n{\n    return -1;\n}\n',
     ['1 -> 0', '1 -> 2', '-1 -> 0']),
    ('hexadecimal stays so', 'static const int t[2] = {0x0f, A};\n',
     ['0x0f -> 0x10', '0x0f -> 0xe', '0x0f, -> ', 'A -> ']),
    ('conditions are negated as a whole',
     'void f(int a)\n{\n    if (a) {\n        h();\n    }\n}\n',
     ['a -> !(a)', 'h() -> ']),
    ('what returns bool returns its opposite', 'bool f(int a)\n{\n    return g(a);\n}\n',
     ['g(a) -> !(g(a))']),
    ('what returns bool returns the other constant', 'bool f(int a)\n{\n    return true;\n}\n',
     ['true -> false']),
    ('declarations stay, assignments go', 'void f(int a)\n{\n    int b = a;\n    b = a;\n}\n',
     ['b = a -> ']),
    ('two arguments change places', 'void f(int a, int b)\n{\n    h(a, b, 1 + a);\n}\n',
     ['a, b -> b, a', '+ -> -', '1 -> 0', '1 -> 2', 'h(a, b, 1 + a) -> ']),
    ('a table loses entries, or has its neighbour\'s value',
     'const int t[] = {[A] = B, [C] = D};\n',
     ['B -> D', '[A] = B, -> ', '[C] = D -> ']),
    ('the size of an array is left alone', 'void f(void)\n{\n    char b[64];\n}\n', []),
    ('what watches is left alone',
     'void f(int a)\n{\n    CHECK(a < 1);\n    TRACE(x, a + 1);\n    PROBE1(x, a + 1);\n'
     '    free(a);\n}\n', []),
    ('comments and prototypes are left alone', '// a < b\nint f(int a);\nextern int a;\n', []),
]

# Where control may arrive, and what else runs only then: a probe's index behind each place.
PROBED = '''CHECKED(sizeof((struct s){0}));
int f(int a)
{ P0
    struct s b = {
        .c = {1, 2},
    };
    if (a) { P1 // yes
        g((struct s){
            .c = {3, 4},
        });
    } else if (h(a)) { P2
        goto out;
    } P3
    do { P4
        switch (a) { P5
        case 1: P6
        default: { P7
            break;
        } P8
        } P9
    } while (--a);
    k();
out: P10
    return a;
}
'''
# What a change there needs a test to have passed.
BEHIND = {'.c = {1': 0, 'if (a)': 0, '.c = {3': 1, 'h(a)': 0, 'goto': 2, 'switch': 4, 'break': 7,
          '--a': 3, 'k()': 3, 'return': 10}

# A function with the bodies of two mutants before its own.
PLAIN = '''static void f(int a)
{
    if (a) {
        goto out;
    }
    k();
out:
    j();
}
'''
CHOICES = '''static void f(int a)
{
# 1 "mutant 1"
if (weft_mutant == 1) { __label__ out;
    if (!(a)) {
        goto out;
    }
    k();
out:
    j();
return; }
# 2 "mem/a.c"

# 1 "mutant 2"
if (weft_mutant == 2) { __label__ out;
    if (a) {
        goto out;
    }
    ;
out:
    j();
return; }
# 2 "mem/a.c"

    if (a) {
        goto out;
    }
    k();
out:
    j();
}
'''

# A project of two rooms; `base` has a fault that only the test of the room above can see.
CODE = '''#include <stdbool.h>
bool is_over(int value)
{
    if (sizeof(int) == 9) {
        value = 7;
    }
    return value > 3;
}
'''
TEST = '''#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
bool is_over(int value);
int main(int argc, char **argv)
{
    return %s ? 0 : 1;
}
'''
STRONG = 'is_over(4) && !is_over(3) && !is_over(-8)'
# Bodies that the assembler does not let stand twice; and a table, which has none.
ONCE = CODE.replace('int value)\n{', 'int value)\n{\n    __asm__ volatile("once:");')
TABLE = CODE.replace('bool is', 'static const int limits[] = {3};\nbool is').replace(
    '> 3', '> limits[0]')
# Nobody calls it.
UNUSED = '''int unused(int value)
{
    return value + value;
}
'''
# Some changes of it never end: a loop, and a sleep.
ENDLESS = '''#include <stdbool.h>
#include <unistd.h>
bool is_over(int value)
{
    for (int i = 0; i != 4; i++) {
        value = value + 0;
    }
    if (value < 0) {
        pause();
    }
    return value > 3;
}
'''
# A test that becomes a crowd, which stays, where a change has the function say yes.
CROWD = TEST.replace('    return %s', '''    for (int i = 0; is_over(3) && i < 400; i++) {
        if (fork() == 0) {
            pause();
        }
    }
    if (is_over(3)) {
        pause();
    }
    return is_over(4)''')
# Values that are of two types.
TYPED = '''#include <stdbool.h>
enum { ONE = 1 };
static const char *const names[] = {"a", 0};
const struct typed {
    int version;
    const char *const *names;
} typed = {.version = ONE, .names = names};
bool is_over(int value)
{
    return value > typed.version;
}
'''
READER = '''extern const struct typed {
    int version;
    const char *const *names;
} typed;
int main(void)
{
    return typed.version == 1 && typed.names[0][0] == 'a' ? 0 : 1;
}
'''
LIVES_OF_ENDLESS = (
    ['base/a.c:8 constant', 'base/a.c:8 relational', 'base/a.c:9 statement in is_over'],
    'base/a.c: 7 of 10 killed (70 %), 2 of them by time; 6 equivalent, 0 stillborn')
MESON = '''project('t', 'c', default_options: ['optimization=2'])
lib = static_library('t', 'base/a.c')
foreach room : ['base', 'mem']
    test(room + '/a', executable('test_' + room, 'tests' / room / 'test_a.c', link_with: lib))
endforeach
'''

# The file is in a library, which a program needs for what is in another alone.
MESON_LIBRARY = '''project('t', 'c', default_options: ['optimization=2'])
map = '-Wl,--version-script=' + meson.source_root() / 'm'
lib = shared_library('t', 'base/a.c', link_args: map)
far = shared_library('far', 'mem/far.c', link_with: lib)
test('base/a', executable('test_base', 'tests/base/test_a.c', link_with: lib))
test('mem/a', executable('test_mem', 'tests/mem/test_a.c', link_with: [far, lib]))
'''
FAR = '''#include <stdbool.h>
bool is_over(int value);
bool is_far(int value)
{
    return is_over(value);
}
'''

# A test that is to be alone, and is slower than the others.
ALONE = '''#include <stdbool.h>
#include <unistd.h>
bool is_over(int value);
int main(void)
{
    return is_over(4) & usleep(300000);
}
'''
MESON_ALONE = MESON + '''other = executable('test_base_b', 'tests/base/test_b.c', link_with: lib)
test('base/b', other, is_parallel: false)
'''

# Which tests there are, and for each verdict whether a mutant has it; who kills, or what is said of
# survivors; and the code, if it is another, and what else is asked for.
TREES = [
    ('a good test kills', {'base': STRONG, 'mem': 'true'}, {'killed', 'equivalent'}, {'base/a'}),
    ('what no test executes is unreached', {'base': 'true', 'mem': 'true'},
     {'survived', 'equivalent'}, {'unreached'}),
    ('what is executed and not looked at survives too', {'base': 'is_over(4) | 1', 'mem': 'true'},
     {'survived', 'equivalent'}, {'met 1'}),
    ('tests of rooms above kill too', {'base': 'true', 'mem': STRONG}, {'killed', 'equivalent'},
     {'mem/a'}),
    ('what a process did before it was killed counts',
     {'base': '(fork() ? wait(0) > 0 : (is_over(4), raise(SIGKILL)))', 'mem': 'true'},
     {'survived', 'equivalent'}, {'met 1'}),
    ('a test that fails unmutated is left out', {'base': 'is_over(4) & 0', 'mem': 'true'},
     {'survived', 'equivalent'}, {'unreached'}),
    ('a test that skips is left out', {'base': 'is_over(4) ? exit(77), 1 : 0', 'mem': 'true'},
     {'survived', 'equivalent'}, {'unreached'}),
    ('a test that fails once only does not kill',
     {'base': 'is_over(4) || system("mkdir once 2>&-")', 'mem': 'true'},
     {'survived', 'equivalent'}, {'met 1'}),
    ('a test that fails once without a mutant, on a busy machine, kills all the same',
     {'base': f'{STRONG} && (*getenv("MUTANT") != 48 || getenv("MUTANT_SEEN") || '
              'system("mkdir once 2>&-"))', 'mem': 'true'},
     {'killed', 'equivalent'}, {'base/a'}),
    ('a process without environment is the mutant too',
     {'base': f'(argc > 1 ? {STRONG} : (is_over(4), clearenv(), '
              'execl("/proc/self/exe", argv[0], "again", (char *)0)))', 'mem': 'true'},
     {'killed', 'equivalent'}, {'base/a'}),
    ('what cannot stand twice is built alone', {'base': STRONG, 'mem': 'true'},
     {'killed', 'equivalent'}, {'base/a'}, ONCE),
    ('a change in a table is built alone', {'base': STRONG, 'mem': 'true'},
     {'killed', 'equivalent'}, {'base/a'}, TABLE),
    ('what no quick test executes meets slow ones',
     {'base': f'(sleep(3), {STRONG})', 'mem': 'true'},
     {'killed', 'equivalent'}, {'base/a'}, CODE, '--seconds', '3'),
    ('what a quick test executes meets no slow one',
     {'base': f'(sleep(3), {STRONG})', 'mem': 'is_over(4) | 1'},
     {'survived', 'equivalent'}, {'met 1'}, CODE, '--seconds', '3'),
]

# A test that says when it begins and when it ends, and takes long; the code of another sample.
LONG = '(system("echo >>began"), sleep(20), system("echo >>ended"), is_over(4))'
MESON_LONG = MESON.replace("'base/a.c'", "'base/a.c', 'mem/b.c'")

# Files that change behind a run of a test that kills some: how many mutants are judged again.
AGAIN = [
    ('what was judged holds when other files change',
     {'mem/b.c': 'int b;\n', 'tools/t': 'new\n', 'docs/t.md': 'new\n'}, 0),
    ('a survivor is judged again when a test changes, what another killed is not',
     {'tests/mem/test_a.c': TEST % STRONG}, 1),
    ('what a test killed is judged again when that test changes',
     {'tests/base/test_a.c': TEST % STRONG}, 2),
]

# A script of two cases, and what runs them; the other sees nothing, and alone fails.
CASES_PY = '''import sys
def main(cases):
    if '--list' in sys.argv:
        print('\\n'.join(cases))
        sys.exit()
    only = sys.argv[2] if len(sys.argv) > 2 else ''
    sys.exit(not all(run() for name, run in cases.items() if only in name))
'''
SCRIPT = '''#!/usr/bin/env python3
import subprocess, sys
from cases import main
main({'sees': lambda: subprocess.run(['%s/test_base', 'all']).returncode == 0,
      'is broken': lambda: len(sys.argv) == 1})
'''
MESON_SCRIPT = MESON + '''test('base/s', find_program('tests/base/test_s.py'))
'''


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def changes_of(text):
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as name:
        root = pathlib.Path(name)
        write(root, {'mem/a.c': text})
        return sorted(f'{text[site.start:site.end]} -> {site.replacement}'
                      for site in sites_of(Source(root, pathlib.Path('mem/a.c'))))


def probes_wrong():
    """What is wrong with the probes of PROBED, or ''."""
    plain = re.sub(r' P\d+', '', PROBED)
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as name:
        root = pathlib.Path(name)
        write(root, {'mem/a.c': plain})
        probes = Probes(Tree(root), ['mem'])
    text = re.sub(r' weft_seen\[(\d+)\] = 1;', r' P\1',
                  inserted(plain, probes.pieces_of('mem/a.c')))
    if text != PROBED:
        return text
    masks = {word: probes.mask_of('mem/a.c', plain.index(word), []) for word in BEHIND}
    return '' if masks == {word: 1 << probe for word, probe in BEHIND.items()} else str(masks)


def choices_wrong():
    """What is wrong with the choices of PLAIN, or ''."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as name:
        root = pathlib.Path(name)
        write(root, {'mem/a.c': PLAIN})
        source = Source(root, pathlib.Path('mem/a.c'))
        wanted = [site for site in sites_of(source) if site.replacement == '!(a)'
                  or PLAIN[site.start:site.end] == 'k()']
        text = inserted(PLAIN, choices(source, [Mutant(number, source, site)
                                                for number, site in enumerate(wanted, 1)]))
    return '' if text == CHOICES else text


def mutants(root, *words):
    result = subprocess.run([MUTANTS, '--root', root, *words], capture_output=True, text=True)
    return result.stdout if result.returncode == 0 else result.stdout + result.stderr


def judge_tree(root, expressions, code=CODE, *words, meson=MESON):
    """The verdicts that occur, and who killed."""
    write(root, {'base/a.c': code, 'meson.build': meson,
                 'meson_options.txt': "option('tests', type: 'feature')\n"
                                      "option('lto', type: 'boolean')\n",
                 **{f'tests/{room}/test_a.c': TEST % expression
                    for room, expression in expressions.items()}})
    said = json.loads(mutants(root, '--rooms', 'base', '--seed', '1', '--json', *words))
    verdicts = {mutant['verdict'] for mutant in said['mutants']}
    killers = {mutant['by'] for mutant in said['mutants']} - {None}
    is_untouched = (root / 'base/a.c').read_text() == code
    return verdicts if is_untouched else 'the tree was changed', killers


def script_wrong():
    """What is wrong with the verdicts where a script's case alone sees, or ''."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        build = root / 'build-mutants/chosen/src/build'
        write(root, {'tests/base/cases.py': CASES_PY, 'tests/base/test_s.py': SCRIPT % build})
        (root / 'tests/base/test_s.py').chmod(0o755)
        found = judge_tree(root, {'base': f'argc < 2 || {STRONG}', 'mem': 'true'}, CODE,
                           meson=MESON_SCRIPT)
    return '' if found == ({'killed', 'equivalent'}, {'base/s: sees'}) else f'found {found}'


@contextlib.contextmanager
def built_tree(files):
    """A tree whose objects the linker optimises, and its build."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        write(root, {'meson.build': MESON, **files,
                     'meson_options.txt': "option('tests', type: 'feature')\n"})
        subprocess.run(['meson', 'setup', root / 'build', root, '-Db_lto=true'],
                       capture_output=True, check=True)
        yield root


def long_wrong():
    """What is wrong with how often a test runs that is too long, over two samples, or ''."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        write(root, {'mem/b.c': UNUSED})
        words = ('--seconds', '8', '--reach-seconds', '8')
        judge_tree(root, {'base': LONG, 'mem': 'is_over(4)'}, CODE, *words, meson=MESON_LONG)
        mutants(root, '--rooms', 'mem', *words)
        build = root / 'build-mutants/chosen/src/build'
        lines = {path.name: len(path.read_text()) for path in build.glob('*ed')}
        lines['began'] = len((build / 'began').read_text())
    return '' if lines == {'began': 1} else f'found {lines}'


def ended_wrong():
    """What is wrong with what is said when somebody ends a look at one file, or ''."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        write(root, {'base/a.c': CODE, 'meson.build': MESON,
                     'meson_options.txt': "option('tests', type: 'feature')\n",
                     'tests/base/test_a.c': TEST % '(system("echo >>began"), sleep(2), true)',
                     'tests/mem/test_a.c': TEST % 'true'})
        build = root / 'build'
        subprocess.run(['meson', 'setup', build, root], capture_output=True, check=True)
        look = subprocess.Popen([MUTANTS, '--root', root, '--file', 'base/a.c', '--by', 'base/a'],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not (build / 'began').exists() and look.poll() is None:
            time.sleep(0.01)
        while look.poll() is None:
            look.terminate()  # as `timeout` does: a process, then its group
            time.sleep(0.002)
        _, said = look.communicate()
        left = [path.name for path in build.iterdir() if 'mutants' in path.name]
    is_right = look.returncode == 143 and 'Traceback' not in said and not left
    return '' if is_right else f'{look.returncode}: {said}left: {left}'


def one_file_wrong():
    """What is wrong with the verdicts on one file before tests of a build that is there, or ''."""
    with built_tree({'base/a.c': TABLE + UNUSED, 'tests/base/test_a.c': TEST % 'is_over(4)',
                     'tests/mem/test_a.c': TEST % '!is_over(3) && !is_over(-8)'}) as root:
        weak, strong = (mutants(root, '--file', 'base/a.c', '--by', by)
                        for by in ('base/test_a', 'base/a,mem/a'))
        left = [path.name for path in (root / 'build').iterdir() if 'mutants' in path.name]
    lives = [f'survived: base/a.c:{line} ' for line in (2, 5, 8)]
    is_right = (all(word in weak for word in lives) and 'survived' not in strong
                and 'unreached: base/a.c:12 return in unused' in strong and not left
                and '3 of 4 killed (75 %), 0 of them by time; 1 equivalent, 0 st' in strong)
    return '' if is_right else f'{weak}{strong}left: {left}'


def unexecuted_wrong():
    """What is wrong with the verdicts on a file of which a test reads the tables alone, whose
    changes do not all compile, or ''."""
    with built_tree({'base/a.c': TYPED, 'tests/base/test_a.c': TEST % 'true',
                     'tests/mem/test_a.c': READER}) as root:
        said = mutants(root, '--file', 'base/a.c', '--by', 'mem/a', '--every').splitlines()
    return '' if re.search(r'[1-9]\d* of \d+ killed .* [1-9]\d* stillborn$', said[-1]) \
        else '\n'.join(said)


def every_wrong():
    """What is wrong with the verdicts on all mutants of one file, or ''."""
    with built_tree({'base/a.c': ENDLESS, 'tests/mem/test_a.c': TEST % 'true',
                     'tests/base/test_a.c': TEST % 'is_over(4) && !is_over(3)'}) as root:
        said = mutants(root, '--file', 'base/a.c', '--by', 'base/a', '--every')
    found = sorted(re.findall(r'^(?:survived|unreached): (.*)', said, re.M)), said.splitlines()[-1]
    return '' if found == LIVES_OF_ENDLESS else f'{found}'


def crowd_wrong():
    """What is wrong with the verdict on a mutant whose program begins more and more processes, or
    ''."""
    with built_tree({'base/a.c': CODE, 'tests/base/test_a.c': CROWD,
                     'tests/mem/test_a.c': TEST % 'true'}) as root:
        said = mutants(root, '--file', 'base/a.c', '--by', 'base/a', '--every').splitlines()[-1]
    return '' if ' 0 of them by time' in said and '0 of ' not in said.split(' killed')[0] else said


def unnamed_wrong():
    """What is wrong with the programs that one file meets if nobody names them, or ''."""
    stands_in = TEST.replace('value);', 'value)\n{\n    return value > 3;\n}') % STRONG
    code = CODE.replace('bool is', '__attribute__((noinline)) bool is')
    with built_tree({'base/a.c': code, 'tests/base/test_a.c': stands_in,
                     'tests/mem/test_a.c': TEST % STRONG}) as root:
        subprocess.run(['ninja', '-C', root / 'build'], capture_output=True, check=True)
        told = mutants(root, '--file', 'base/a.c', '--by', 'base/a', '--every').splitlines()[-1]
        found = mutants(root, '--file', 'base/a.c', '--by', 'auto', '--every').splitlines()[-1]
    is_right = ' 0 of ' in told and '(100 %)' in found
    return '' if is_right else f'{told}\n{found}'


def order_wrong():
    """What is wrong with the order in which tests are asked if nobody names them, or ''."""
    texts = {'a': 'int one(void){return 1;}\nint two(void){return 2;}\n',
             'base/far': 'int f(void){return 3;}\n',
             'mem/near': 'int one(void);\nint f(void){return one();}\n',
             'mem/nearest': 'int one(void), two(void);\nint f(void){return one() + two();}\n'}
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        write(root, {f'{name}.c': text for name, text in texts.items()})
        for name in texts:
            subprocess.run(['cc', '-c', f'{name}.c', '-o', f'{name}.c.o'], check=True, cwd=root)
        names = [name for name in texts if name != 'a'] + ['base/unbuilt']
        build = types.SimpleNamespace(path=root, tests=names,
                                      link_of=lambda name: ['cc', f'{name}.c.o'])
        calls = callers(build, {root / 'a.c.o'})
    found = sorted(names, key=lambda name: likelihood(name, 'base/a.c', calls.get(name, 0)))
    wanted = ['mem/nearest', 'mem/near', 'base/far', 'base/unbuilt']
    return '' if found == wanted else f'{found} by {calls}'


def library_wrong():
    """What is wrong with the verdicts on a file of a shared library, whose name a test has too, in
    a table, a function, or where no program is named, or ''."""
    code = 'const int most = 3;\n' + TABLE
    near = TEST.replace('value);', 'value);\nconst int most = 4;')
    far = TEST.replace('is_over', 'is_far')
    with built_tree({'base/a.c': code, 'mem/far.c': FAR, 'meson.build': MESON_LIBRARY,
                     'm': '{ global: is_over; local: *; };\n',
                     'tests/base/test_a.c': near % 'is_over(4)',
                     'tests/mem/test_a.c': far % STRONG.replace('is_over', 'is_far')}) as root:
        subprocess.run(['ninja', '-C', root / 'build'], capture_output=True, check=True)
        near, far, found = (mutants(root, '--file', 'base/a.c', '--by', by, '--every')
                            for by in ('base/a', 'mem/a', 'auto'))
    rates = [re.search(r'\((\d+) %\)', said) for said in (near, far, found)]
    is_right = all(rates) and 0 < int(rates[0][1]) < int(rates[1][1]) == int(rates[2][1])
    return '' if is_right else near + far + found


def several_wrong():
    """What is wrong with what is said of several files, named or drawn, or ''."""
    with built_tree({'base/a.c': CODE, 'mem/b.c': CODE.replace('is_over', 'is_far'),
                     'meson.build': MESON.replace("'base/a.c'", "'base/a.c', 'mem/b.c'"),
                     'tests/base/test_a.c': TEST % STRONG,
                     'tests/mem/test_a.c': TEST % 'true'}) as root:
        named = mutants(root, '--file', 'base/a.c,mem/b.c', '--by', 'base/a')
        drawn = mutants(root, '--rooms', 'base,mem', '--by', 'base/a')
    wanted = ['base: 2 of 2 killed (100 %)', 'mem: 0 of 1 killed (0 %)',
              'all: 2 of 3 killed (67 %)']
    found = [said.splitlines()[-3:] for said in (named, drawn)]
    return '' if found == [wanted, wanted] else named + drawn


def drawn_anew():
    """What a seed draws that it did not draw before another function stood there, or ''."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        changes = []
        for text in (CODE + PLAIN, 'int other(int a)\n{\n    return a + 1;\n}\n' + CODE + PLAIN):
            write(root, {'mem/a.c': text})
            changes.append([(mutant.function, mutant.number, mutant.site.replacement,
                             text[mutant.site.start:mutant.site.end])
                            for mutant in draw(Tree(root), ['mem'], 1, 99)])
    before, after = changes
    kept = [change for change in after if change[0] != 'other']
    return '' if kept == before and len(before) > 4 else f'{after} in place of {before}'


def judged_anew(changed):
    """How many mutants of an unchanged file are judged again when these files change, by what is
    said."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        root = pathlib.Path(folder)
        judge_tree(root, {'base': '!is_over(-8)', 'mem': 'true'})
        write(root, changed)
        again = subprocess.run([MUTANTS, '--root', root, '--rooms', 'base', '--seed', '1'],
                               capture_output=True, text=True)
    return int(re.search(r'(\d+) judged anew', again.stderr).group(1))


def tree_wrong(expressions, verdicts, killers, *words, also=(), meson=MESON):
    """What is wrong with the verdicts on a tree of these tests, or ''."""
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as folder:
        write(pathlib.Path(folder), dict(also))
        found = judge_tree(pathlib.Path(folder), expressions, *(words or [CODE]), meson=meson)
    return '' if found == (verdicts, killers) else f'found {found}'


def quick_results():
    """(name, what is wrong or '') of what takes no build."""
    for name, text, expected in CASES:
        found = changes_of(text)
        yield name, '' if found == sorted(expected) else f'{found} in place of {sorted(expected)}'
    with tempfile.TemporaryDirectory(prefix='weft-mutants-') as name:
        shutil.copytree(ROOT / 'cq', pathlib.Path(name, 'cq'))
        drawn = [mutants(pathlib.Path(name), '--list', '--rooms', 'cq', '--count', '9',
                         '--seed', seed) for seed in ('3', '3', '4')]
    is_same = drawn[0] == drawn[1] and drawn[0].count('@@') >= 18
    yield 'a seed draws the same again', '' if is_same else drawn[0]
    yield 'another seed draws others', '' if drawn[0] != drawn[2] else drawn[0]
    yield 'lines that change leave the others\' mutants alone', drawn_anew()
    yield 'probes stand where control may arrive', probes_wrong()
    yield 'a function has both bodies', choices_wrong()
    yield 'tests that call most of a file are asked first', order_wrong()
    yield TREES[0][0], tree_wrong(*TREES[0][1:])
    yield 'one file meets programs of a build that is there', one_file_wrong()


def long_results():
    """(name, what is wrong or '') of what builds trees and judges them."""
    for name, *tree in TREES[1:]:
        yield name, tree_wrong(*tree)
    yield 'a script is met case by case', script_wrong()
    yield 'a table that is read from elsewhere is seen', unexecuted_wrong()
    yield 'all mutants of a file meet them, and who never ends is killed', every_wrong()
    yield 'a program that becomes a crowd is ended before its time is over', crowd_wrong()
    yield 'where none is named, those that hold the file meet them', unnamed_wrong()
    yield 'a file of a shared library is seen by who needs it', library_wrong()
    yield 'several files are judged in one run', several_wrong()
    yield 'a test that is too long runs once, and not to its end', long_wrong()
    yield 'who ends a look at one file, by two signals, is answered by no traceback', ended_wrong()
    for name, changed, expected in AGAIN:
        count = judged_anew(changed)
        yield name, '' if count == expected else f'{count} of them are'
    yield 'tests that stand on no room kill last', \
        tree_wrong({'base': 'true', 'docs': STRONG}, {'killed', 'equivalent'}, {'docs/a'},
                   meson=MESON.replace("'mem'", "'docs'"))
    yield 'who is asked again does not wait for a test that is to be alone', \
        tree_wrong({'base': STRONG, 'mem': 'true'}, {'killed', 'equivalent'}, {'base/a'},
                   also={'tests/base/test_b.c': ALONE}, meson=MESON_ALONE)


def results():
    """(name, what is wrong or ''): `make soak` has the long ones, minutes of builds."""
    yield from quick_results()
    if SOAK:
        yield from long_results()


def main():
    failed = 0
    number = 0
    for number, (name, wrong) in enumerate(results(), 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {name}', flush=True)
        if wrong:
            failed += 1
            print('\n'.join('# ' + line for line in wrong.splitlines()))
    print(f'1..{number}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
