"""Many mutants in one build: the function that one changes has both bodies, and a number given to
the process chooses. So a mutant costs no compiler and no linker, but only its tests.

A body may stand twice: its labels are local to the copy, its static variables the copy's own. What
is changed outside of functions (tables, enums) cannot be chosen, nor can a function that the
compiler refuses twice: such mutants are alone, the file being changed for each (Workshop.mutate).

The number is in the environment (MUTANT), and in a file for processes that were left none.
"""

import os
import platform
import re

from .coverage import AT_FDCWD, CALLS, bodies
from .workshop import Broken, Workshop

READ = {'x86_64': 0, 'aarch64': 63}
O_RDONLY_CLOEXEC = 0o2000000
CHOICE_H = '''\
extern char *getenv(const char *);
extern long syscall(long, ...);
#define WEFT_OF_MODULE __attribute__((weak, visibility("hidden")))
WEFT_OF_MODULE int weft_mutant;
WEFT_OF_MODULE __attribute__((constructor(101))) void weft_choose(void);
WEFT_OF_MODULE void weft_choose(void)
{
    char digits[16] = {0};
    const char *at = getenv("MUTANT");
    if (!at) {
        long fd = syscall(%(openat)d, (long)%(cwd)d, "%(chosen)s", (long)%(flags)d, 0L);
        if (fd >= 0) {
            syscall(%(read)d, fd, digits, (long)sizeof digits - 1);
            syscall(%(close)d, fd);
        }
        at = digits;
    }
    int number = 0;
    while (*at >= '0' && *at <= '9') {
        number = 10 * number + (*at++ - '0');
    }
    weft_mutant = number;
}
'''
_LABEL = re.compile(r'^[ \t]*(?!default\b)([A-Za-z_]\w*):(?=[ \t]*$)', re.M)
_FAILED = re.compile(r'^FAILED: (\S+)', re.M)


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
    return (f' if (weft_mutant == {mutant.number}) {{'
            f'{f" __label__ {labels};" if labels else ""}'
            f'{source.text[begin:mutant.site.start]}{mutant.site.replacement}'
            f'{source.text[mutant.site.end:end]}'
            f'{"return;" if is_void else "__builtin_trap();"} }}')


def with_choices(source, mutants):
    """The text of a file in which each of these can be chosen."""
    before = {}
    for mutant in mutants:
        function = function_of(source, mutant)
        before.setdefault(function.start + 1, []).append(other_body(source, function, mutant))
    pieces = []
    begin = 0
    for at in sorted(before):
        pieces += [source.text[begin:at], *before[at]]
        begin = at
    return ''.join(pieces + [source.text[begin:]])


class Chosen(Workshop):
    """A copy of the sources in which these mutants can be chosen, and its build."""

    def __init__(self, root, folder, jobs, say, mutants):
        folder.mkdir(parents=True, exist_ok=True)
        self.number_path = folder / 'number'  # of the mutant, for processes without environment
        self.number = 0
        is_possible = platform.machine() in CALLS
        self.by_path = {}
        for mutant in mutants if is_possible else []:
            if function_of(mutant.source, mutant):
                self.by_path.setdefault(str(mutant.path), []).append(mutant)
        if is_possible:
            self.flags = f'-include {self._header(folder)} {Workshop.flags}'
        super().__init__(root, folder, jobs, say)

    def _header(self, folder):
        header = folder / 'choice.h'
        text = CHOICE_H % {**CALLS[platform.machine()], 'read': READ[platform.machine()],
                           'cwd': AT_FDCWD, 'chosen': self.number_path, 'flags': O_RDONLY_CLOEXEC}
        if not header.is_file() or header.read_text() != text:
            header.write_text(text)
        return header

    def content_of(self, path):
        mutants = self.by_path.get(str(path))
        if mutants:
            return with_choices(mutants[0].source, mutants).encode()
        return super().content_of(path)

    def has(self, mutant):
        return mutant in self.by_path.get(str(mutant.path), [])

    def build_all(self):
        """Everything; files that the compiler refuses so lose their choices."""
        self.choose(None)
        while True:
            failed = self.failures('all')
            if failed is None:
                break
            refused = self._sources_of(_FAILED.findall(failed))
            if not refused:
                raise Broken(f'the unmutated tree does not build\n{failed[-3000:]}')
            for path in refused:
                self.say(f'{path}: {len(self.by_path.pop(path))} mutants are built alone')
                (self.source / path).write_bytes(self.content_of(path))
        self.headers = self._users_of_headers()

    def _sources_of(self, objects):
        """The files with choices that are to blame: C files, or else all headers."""
        own = [path for path in self.by_path if set(self.objects.get(path, [])) & set(objects)]
        return own or ([path for path in self.by_path if path.endswith('.h')] if objects else [])

    # --- which mutant the processes are

    def choose(self, mutant):
        """Makes it be there; it is to be built yet if it is alone."""
        if mutant and self.has(mutant):
            self.restore()
            self.number = mutant.number
        elif mutant:
            self.number = 0
            self.mutate(mutant)
        else:
            self.number = 0
            self.restore()
        self.number_path.write_text(f'{self.number}\n')
        os.chmod(self.number_path, 0o644)

    @property
    def environment(self):
        return {'MUTANT': str(self.number)}
