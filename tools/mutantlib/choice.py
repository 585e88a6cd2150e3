"""Many mutants in one build: the function that one changes has both bodies, and a number given to
the process chooses. So a mutant costs no compiler and no linker, but only its tests.

A body may stand twice: its labels are local to the copy, its static variables the copy's own. What
is changed outside of functions (tables, enums) cannot be chosen, nor can a function that the
compiler refuses twice: such mutants are alone, the file being changed for each (Workshop.mutate).

Only files that have a mutant are changed, and all is compiled as users compile it, so that a cache
of the compiler's has most of the objects. The copies of a body are named to the compiler: a mutant
that it refuses is stillborn, and the others of its file stay.

The number is in the environment (MUTANT), and in a file for processes that were left none: in the
/run of the test's own namespace, so that tests of several mutants can run at a time, and below the
folder for who has no such.

The same build has the probes of coverage.py, which see only processes that no mutant is chosen for.
"""

import json
import os
import pathlib
import platform
import re

from .coverage import bodies, inserted
from .workshop import Broken, Workshop

# System calls by number, without libc: its calls, syscall() too, may be those that the code around
# stands in for (-Wl,--wrap=syscall).
CALLS = {'x86_64': {'openat': 257, 'mmap': 9, 'close': 3, 'read': 0},
         'aarch64': {'openat': 56, 'mmap': 222, 'close': 57, 'read': 63}}
AT_FDCWD, O_RDONLY_CLOEXEC, O_RDWR_CLOEXEC = -100, 0o2000000, 0o2000002
OF_NAMESPACE = '/run/mutant'
CHOICE_H = '''\
#pragma once
extern char *getenv(const char *);
static long weft_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#endif
}
#define WEFT_OF_MODULE __attribute__((weak, visibility("hidden")))
WEFT_OF_MODULE int weft_mutant;
WEFT_OF_MODULE unsigned char weft_unseen[%(count)d];
WEFT_OF_MODULE unsigned char *weft_seen = weft_unseen;
WEFT_OF_MODULE __attribute__((constructor(101))) void weft_choose(void);
WEFT_OF_MODULE void weft_choose(void)
{
    char digits[16] = {0};
    const char *at = getenv("MUTANT");
    if (weft_seen != weft_unseen) {
        return;
    }
    if (!at) {
        long fd = weft_call(%(openat)d, %(cwd)d, (long)"%(of_namespace)s", %(reading)d, 0, 0, 0);
        if (fd < 0) {
            fd = weft_call(%(openat)d, %(cwd)d, (long)"%(chosen)s", %(reading)d, 0, 0, 0);
        }
        if (fd >= 0) {
            weft_call(%(read)d, fd, (long)digits, (long)sizeof digits - 1, 0, 0, 0);
            weft_call(%(close)d, fd, 0, 0, 0, 0, 0);
        }
        at = digits;
    }
    int number = 0;
    while (*at >= '0' && *at <= '9') {
        number = 10 * number + (*at++ - '0');
    }
    weft_mutant = number;
    if (number) {
        return;
    }
    const char *path = getenv("MUTANT_SEEN");
    long fd = weft_call(%(openat)d, %(cwd)d, (long)(path ? path : "%(stray)s"), %(writing)d, 0, 0,
                        0);
    if (fd >= 0) {
        long map = weft_call(%(mmap)d, 0, (long)sizeof weft_unseen, 3, 1, fd, 0);
        if (map > 0) {
            weft_seen = (unsigned char *)map;
        }
        weft_call(%(close)d, fd, 0, 0, 0, 0, 0);
    }
}
'''
_LABEL = re.compile(r'^[ \t]*(?!default\b)([A-Za-z_]\w*):(?=[ \t]*$)', re.M)
_FAILED = re.compile(r'^FAILED: (\S+)', re.M)
_STILLBORN = re.compile(r'^mutant (\d+):\d+:\d+: (?:fatal )?error:', re.M)
_COLOUR = re.compile(r'\x1b\[[0-9;]*[mK]')
# What the compiler of a C later than ours refuses is no mutant.
STRICT = ''.join(f'#pragma GCC diagnostic error "-W{word}"\n'
                 for word in ('int-conversion', 'incompatible-pointer-types'))


def function_of(source, mutant):
    """The function that a mutant changes, or None."""
    return next((function for function in bodies(source)
                 if function.start < mutant.site.start and mutant.site.end <= function.end), None)


def other_body(source, function, mutant):
    """The statement that stands before all others of a function: what the mutant does instead."""
    begin, end = function.start + 1, function.end
    labels = ', '.join(_LABEL.findall(source.code, begin, end))
    head = source.code[max(source.code.rfind(mark, 0, function.start) for mark in ';}') + 1:begin]
    is_void = re.search(rf'\bvoid\s+{function.name}\s*\(', head)
    return (f'\n# 1 "mutant {mutant.number}"\n'
            f'if (weft_mutant == {mutant.number}) {{'
            f'{f" __label__ {labels};" if labels else ""}'
            f'{source.text[begin:mutant.site.start]}{mutant.site.replacement}'
            f'{source.text[mutant.site.end:end]}'
            f'{"return;" if is_void else "__builtin_trap();"} }}\n'
            f'# {source.line_of(begin)} "{source.path}"\n')


def choices(source, mutants):
    """[(offset, text)] to be inserted into a file so that each of these can be chosen."""
    return [(function_of(source, mutant).start + 1,
             other_body(source, function_of(source, mutant), mutant)) for mutant in mutants]


def header_text(probes_count, number_path, stray):
    """What each file with choices and probes begins with, here."""
    return CHOICE_H % {**CALLS[platform.machine()], 'cwd': AT_FDCWD, 'count': probes_count,
                       'chosen': number_path, 'of_namespace': OF_NAMESPACE, 'stray': stray,
                       'reading': O_RDONLY_CLOEXEC, 'writing': O_RDWR_CLOEXEC}


def with_choices(source, header, mutants, probes):
    """The text of a file in which each of these can be chosen, and with probes."""
    return (f'#include "{header}"\n{STRICT}# 1 "{source.path}"\n'
            + inserted(source.text, choices(source, mutants) + probes.pieces_of(str(source.path))))


def refused(said):
    """The numbers of the mutants that a compiler names."""
    return {int(number) for number in _STILLBORN.findall(_COLOUR.sub('', said))}


class Chosen(Workshop):
    """A copy of the sources with probes in it, in which these mutants can be chosen; its build."""

    build_name = pathlib.Path('src', 'build')  # there, sources are where users have them

    def __init__(self, root, folder, jobs, say, mutants, probes):
        folder.mkdir(parents=True, exist_ok=True)
        self.number_path = folder / 'number'  # of the mutant, for processes without environment
        self.stray = folder / 'seen.stray'  # what such processes execute
        self.probes = probes
        self.is_possible = platform.machine() in CALLS
        self.refused_path = folder / 'refused.json'  # that the compiler refused in earlier runs
        self.refused = set(json.loads(self.refused_path.read_text())
                           if self.refused_path.is_file() else [])
        self.stillborn = []  # those that do not compile
        self.by_path = {}
        for mutant in mutants if self.is_possible else []:
            if function_of(mutant.source, mutant) and mutant.change not in self.refused:
                self.by_path.setdefault(str(mutant.path), []).append(mutant)
        if self.is_possible:
            self.map(self.stray)
            self.header = self._header(folder)
            self.options = []
        super().__init__(root, folder, jobs, say)

    def _header(self, folder):
        header = folder / 'choice.h'
        text = header_text(self.probes.count, self.number_path, self.stray)
        if not header.is_file() or header.read_text() != text:
            header.write_text(text)
        return header

    def content_of(self, path):
        name = str(path)
        if not self.is_possible or (name not in self.by_path and name not in self.probes.arrivals):
            return super().content_of(path)
        source = self.probes.sources[name]
        return with_choices(source, self.header, self.by_path.get(name, []), self.probes).encode()

    def has(self, mutant):
        return mutant in self.by_path.get(str(mutant.path), [])

    def build_all(self, targets):
        """All of these. Mutants that the compiler refuses are stillborn; files that it refuses so
        lose their choices, and then their probes."""
        self.choose(None)
        while True:
            failed = self.failures(*targets)
            if failed is None:
                break
            failed = _COLOUR.sub('', failed)
            changed = self._bury(failed) or self._give_up(_FAILED.findall(failed))
            for path in changed:
                (self.source / path).write_bytes(self.content_of(path))
            if not changed:
                raise Broken(f'the unmutated tree does not build\n{failed[-3000:]}')
        self.refused_path.write_text(json.dumps(sorted(self.refused)))
        self.headers = self._users_of_headers()

    def _bury(self, failed):
        """The files of the mutants that the compiler names."""
        numbers = refused(failed)
        changed = []
        for path, mutants in self.by_path.items():
            dead = [mutant for mutant in mutants if mutant.number in numbers]
            if dead:
                self.stillborn += dead
                self.by_path[path] = [mutant for mutant in mutants if mutant not in dead]
                changed.append(path)
        return changed

    def _give_up(self, objects):
        """The files that are to blame for objects which are not made."""
        choosable = self._sources_of(objects, [path for path, mutants in self.by_path.items()
                                               if mutants])
        probed = self._sources_of(objects, self.probes.arrivals)
        for path in choosable:
            refused = self.by_path.pop(path)
            self.refused |= {mutant.change for mutant in refused}
            self.say(f'{path}: {len(refused)} mutants are built alone')
        for path in [] if choosable else probed:
            self.say(f'{path}: does not compile with probes')
            self.probes.forget(path)
        return choosable or probed

    def _sources_of(self, objects, paths):
        """Those of these files that are to blame: C files, or else all headers."""
        own = [path for path in paths if set(self.objects.get(path, [])) & set(objects)]
        return own or ([path for path in paths if path.endswith('.h')] if objects else [])

    # --- what was executed

    def map(self, path):
        """An empty map of probes, for processes of any user."""
        self.probes.map(path)

    def seen(self, path):
        """The probes that a map tells of, as bits; None if there are none."""
        return self.probes.seen(path) if self.is_possible else None

    # --- which mutant the processes are

    def choose(self, mutant):
        """Makes it be there; it is to be built yet if it is alone."""
        if mutant and not self.has(mutant):
            self.mutate(mutant)
        else:
            self.restore()
        self.number_path.write_text(f'{self.number_of(mutant)}\n')
        os.chmod(self.number_path, 0o644)

    def number_of(self, mutant):
        return mutant.number if mutant and self.has(mutant) else 0

    def environment_of(self, mutant):
        return {'MUTANT': str(self.number_of(mutant))}
