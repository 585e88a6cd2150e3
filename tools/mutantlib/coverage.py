"""Which places of the code each test executes: seen in a build of its own, with probes in it.

A probe is a statement that sets one octet of a file that all processes of a test have mapped: what
a process did is known however it ends, by a signal too. A probe stands where control may arrive
from elsewhere: behind a brace that opens or closes a block, and behind a label. Who executes a
place has passed the probe before it. The reverse need not be so: a test may meet a mutant in vain,
but nothing is called unreached that a test executed.
"""

import bisect
import json
import platform
import re

from lintlib import house, tree
from lintlib.tree import Tree

from .workshop import Workshop

# clang-format's layout says which brace begins a block: one of a value has `=` or a cast before it.
_BLOCK = re.compile(r'(?:\)|\belse|\bdo|:) $')
_LABEL = re.compile(r'^[ \t]*(?:case\b[^?\n]*|default|[A-Za-z_]\w*):(?=[ \t]*$)', re.M)
_BRACE = re.compile(r'[{}]')
_TABLE = re.compile(r'(\w+)\s*(?:\[[^\[\]=]*\]\s*)*(?:__attribute__\s*\(\(.*\)\)\s*)?=\s*$', re.S)

# System calls by number: libc's calls may be those that the code around stands in for.
CALLS = {'x86_64': {'openat': 257, 'mmap': 9, 'close': 3},
         'aarch64': {'openat': 56, 'mmap': 222, 'close': 57}}
AT_FDCWD, O_RDWR_CLOEXEC = -100, 0o2000002
PROBE_H = '''\
extern char *getenv(const char *);
extern long syscall(long, ...);
#define WEFT_OF_MODULE __attribute__((weak, visibility("hidden")))
WEFT_OF_MODULE unsigned char weft_unseen[%(count)d];
WEFT_OF_MODULE unsigned char *weft_seen = weft_unseen;
WEFT_OF_MODULE __attribute__((constructor(101))) void weft_see(void);
WEFT_OF_MODULE void weft_see(void)
{
    if (weft_seen != weft_unseen) {
        return;
    }
    const char *path = getenv("MUTANT_SEEN");
    long fd = syscall(%(openat)d, (long)%(cwd)d, path ? path : "%(stray)s", (long)%(flags)d, 0L);
    if (fd >= 0) {
        long at = syscall(%(mmap)d, 0L, (long)sizeof weft_unseen, 3L, 1L, fd, 0L);
        if (at > 0) {
            weft_seen = (unsigned char *)at;
        }
        syscall(%(close)d, fd);
    }
}
'''


def bodies(source):
    """Functions, each with its brace on a line of its own: elsewhere it is that of a value."""
    for function in tree.functions(source):
        line = source.code.rfind('\n', 0, function.start) + 1
        if not source.code[line:function.start].strip():
            yield function


def arrivals(source):
    """[(offset, probe)] of a C file's functions, in order: what follows runs only behind the probe
    of that index. A probe is set at the first offset that has it; what follows `} else` runs behind
    that before the block."""
    code = source.code
    found = []
    for function in bodies(source):
        found.append((function.start + 1, None))
        marks = [(match.start(), match.group())
                 for match in _BRACE.finditer(code, function.start + 1, function.end)]
        marks += [(match.end(), 'label')
                  for match in _LABEL.finditer(code, function.start + 1, function.end)]
        blocks = []
        for at, mark in sorted(marks):
            if mark == 'label':
                found.append((at, None))
            elif mark == '{':
                line = code.rfind('\n', 0, at) + 1
                is_last = not code[at + 1:code.find('\n', at)].strip()
                is_block = is_last and bool(_BLOCK.search(code, line, at))
                blocks.append(len(found) - 1 if is_block else None)
                if is_block:
                    found.append((at + 1, None))
            else:
                before = blocks.pop()
                if before is not None:
                    goes_on = re.match(r'\s*(?:else|while)\b', code[at + 1:at + 40])
                    found.append((at + 1, before if goes_on else None))
    probes = []  # of each arrival
    for index, (_, before) in enumerate(found):
        probes.append(max(probes, default=-1) + 1 if before is None else probes[before])
    return [(at, probe) for (at, _), probe in zip(found, probes)]


class Probes:
    """All probes of a tree, numbered, and where they stand."""

    def __init__(self, root, rooms):
        self.sources = {str(source.path): source for source in Tree(root).c_files
                        if source.room in rooms
                        and source.path.parts[0] not in ('tests', 'include')}
        self.arrivals = {}  # path -> [(offset, probe)]
        self.first = {}  # path -> the number of its first probe
        self.count = 0
        for path, source in self.sources.items():
            self.arrivals[path] = arrivals(source)
            self.first[path] = self.count
            self.count += self._count_of(path)

    def _count_of(self, path):
        return max((probe for _, probe in self.arrivals[path]), default=-1) + 1

    def text_of(self, path):
        """The file with its probes."""
        text = self.sources[path].text
        pieces, begin, is_set = [], 0, set()
        for at, probe in self.arrivals[path]:
            if probe not in is_set:
                is_set.add(probe)
                pieces += [text[begin:at], f' weft_seen[{self.first[path] + probe}] = 1;']
                begin = at
        return ''.join(pieces + [text[begin:]])

    def _all_of(self, path):
        return ((1 << self._count_of(path)) - 1) << self.first[path]

    def mask_of(self, path, start, users):
        """Probes of which a test must have passed one to see a change there; None: not known.
        `users` are the files that include a header."""
        source = self.sources[path]
        if any(function.start < start < function.end for function in bodies(source)):
            index = bisect.bisect_right(self.arrivals[path], (start, self.count)) - 1
            return 1 << (self.first[path] + self.arrivals[path][index][1])
        mask = 0
        for reader in users if source.path.suffix == '.h' else self._readers(source, start):
            mask |= self._all_of(reader) if reader in self.arrivals else 0
        return mask or None

    def _readers(self, source, start):
        """The files that name the table that stands there."""
        opening = source.code.rfind('\n{', 0, start) + 1
        for match in re.finditer(r'=\s*\{', source.code[:start]):
            head = source.code.rfind('\n', 0, match.start())
            if source.code[head + 1:head + 2].strip():
                opening = match.end() - 1
        name = _TABLE.search(source.code[:opening])
        if not name:
            return [str(source.path)]
        word = re.compile(rf'\b{name.group(1)}\b')
        return [path for path, other in self.sources.items() if word.search(other.code)]


class Covered(Workshop):
    """A second copy of the sources, with probes, and its build."""

    def __init__(self, root, folder, jobs, say, probes):
        folder.mkdir(parents=True, exist_ok=True)
        self.probes = probes
        self.stray = folder / 'seen.stray'  # by processes that were left no environment
        self.map(self.stray)
        header = folder / 'probe.h'
        text = PROBE_H % {**CALLS[platform.machine()], 'count': probes.count, 'stray': self.stray,
                          'cwd': AT_FDCWD, 'flags': O_RDWR_CLOEXEC}
        if not header.is_file() or header.read_text() != text:
            header.write_text(text)
        self.flags = f'-include {header}'
        super().__init__(root, folder, jobs, say)

    def content_of(self, path):
        if str(path) in self.probes.sources:
            return self.probes.text_of(str(path)).encode()
        return super().content_of(path)

    def map(self, path):
        """An empty map, for processes of any user."""
        path.write_bytes(bytes(self.probes.count))
        path.chmod(0o666)

    def seen(self, path):
        """The probes that a map tells of, as bits."""
        bits = path.read_bytes()[::-1].translate(bytes([48]) + bytes([49]) * 255)
        return int(bits or b'0', 2)


class Coverage:
    """What is known of each test unmutated: how long it takes, and what it executes."""

    def __init__(self, root, folder, workshop, is_fresh):
        self.root = root
        self.folder = folder / 'covered'
        self.path = folder / 'coverage.json'
        self.workshop = workshop
        self.is_possible = platform.machine() in CALLS
        self.probes = Probes(root, house.ROOMS)
        self.covered = None
        self.tests = {}
        kept = json.loads(self.path.read_text()) if self.path.is_file() and not is_fresh else {}
        is_same = kept.get('code') == workshop.code_id
        self.records = kept.get('tests', {}) if is_same else {}
        self.stray = int(kept.get('stray', '0'), 16) if is_same else 0

    def record(self, test):
        """{'seconds', 'how', 'seen'} of this very test; None if there is none."""
        record = self.records.get(test.name)
        return record if record and record['id'] == self.workshop.id_of(test) else None

    def keep(self, test, seconds, how, seen):
        self.records[test.name] = {'id': self.workshop.id_of(test), 'seconds': seconds, 'how': how,
                                   'seen': None if seen is None else hex(seen)}

    def save(self):
        beside = self.path.with_suffix('.new')
        beside.write_text(json.dumps({'code': self.workshop.code_id, 'stray': hex(self.stray),
                                      'tests': self.records}))
        beside.rename(self.path)

    def measure(self, tests, runner, limit_s):
        """Runs each once with probes; returns those that did not pass so."""
        if not self.is_possible:
            return tests
        if not self.covered:
            self.covered = Covered(self.root, self.folder, self.workshop.jobs, self.workshop.say,
                                   self.probes)
            self.tests = {test.name: test for test in runner.tests_of(self.covered)}
        twins = {test.name: test for test in tests}
        probed = [self.tests[name] for name in twins if name in self.tests]
        if not self.covered.make(runner.targets_of(probed)):
            self.workshop.say('the tree does not build with probes: tests are chosen by room')
            self.is_possible = False
            return tests
        maps = {test.name: self.folder / f'seen.{number}' for number, test in enumerate(probed)}
        for path in maps.values():
            self.covered.map(path)
        failed = [test for name, test in twins.items() if name not in self.tests]
        for number, (test, how, seconds) in enumerate(runner.outcomes(
                sorted(probed, key=lambda test: test.is_alone), lambda _: limit_s,
                lambda test: {'MUTANT_SEEN': str(maps[test.name])})):
            twin = twins[test.name]
            if how in ('passed', 'skipped', 'time'):
                self.keep(twin, seconds, how, self.covered.seen(maps[test.name]))
            else:
                failed.append(twin)
            maps[test.name].unlink()
            if number % 20 == 19:
                self.save()
        self.stray |= self.covered.seen(self.covered.stray)
        self.save()
        return failed
