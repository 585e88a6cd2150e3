"""Which places of the code each test executes: seen by probes in the build that tests run in.

A probe is a statement that sets one octet of a file that all processes of a test have mapped: what
a process did is known however it ends, by a signal too. A probe stands where control may arrive
from elsewhere: behind a brace that opens or closes a block, and behind a label. Who executes a
place has passed the probe before it. The reverse need not be so: a test may meet a mutant in vain,
but nothing is called unreached that a test executed.
"""

import bisect
import hashlib
import json
import re

from lintlib.tree import functions

# clang-format's layout says which brace begins a block: one of a value has `=` or a cast before it.
_BLOCK = re.compile(r'(?:\)|\belse|\bdo|:) $')
_LABEL = re.compile(r'^[ \t]*(?:case\b[^?\n]*|default|[A-Za-z_]\w*):(?=[ \t]*$)', re.M)
_BRACE = re.compile(r'[{}]')
_TABLE = re.compile(r'(\w+)\s*(?:\[[^\[\]=]*\]\s*)*(?:__attribute__\s*\(\(.*\)\)\s*)?=\s*$', re.S)

# The probes of a file begin at such numbers, and the map has such a length, so that a change of one
# file does not change all others.
ALIGNED, MAP_ALIGNED = 32, 8192
ALL = 'all'  # of a file, in place of the bits of its probes


def bodies(source):
    """Functions, each with its brace on a line of its own: elsewhere it is that of a value."""
    for function in functions(source):
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


def aligned(number, to):
    return -(-number // to) * to


def inserted(text, pieces):
    """A text with pieces [(offset, text)] in it."""
    parts, begin = [], 0
    for at, piece in sorted(pieces, key=lambda piece: piece[0]):
        parts += [text[begin:at], piece]
        begin = at
    return ''.join(parts + [text[begin:]])


class Probes:
    """The probes of these files, numbered, and where they stand."""

    def __init__(self, tree, rooms, paths=None):
        self.sources = {str(source.path): source for source in tree.c_files
                        if source.room in rooms
                        and source.path.parts[0] not in ('tests', 'include')}
        self.arrivals = {}  # path -> [(offset, probe)]
        self.first = {}  # path -> the number of its first probe
        self.count = 0
        for path, source in self.sources.items():
            if paths is not None and path not in paths:
                continue
            self.arrivals[path] = arrivals(source)
            self.first[path] = self.count
            self.count = aligned(self.count + self._count_of(path), ALIGNED)
        self.count = aligned(self.count, MAP_ALIGNED)

    def _count_of(self, path):
        return max((probe for _, probe in self.arrivals[path]), default=-1) + 1

    def pieces_of(self, path):
        """[(offset, probe)] that the file gets."""
        pieces, is_set = [], set()
        for at, probe in self.arrivals.get(path, []):
            if probe not in is_set:
                is_set.add(probe)
                pieces.append((at, f' weft_seen[{self.first[path] + probe}] = 1;'))
        return pieces

    def map(self, path):
        """An empty map of them, for processes of any user."""
        path.write_bytes(bytes(self.count))
        path.chmod(0o666)

    def seen(self, path):
        """The probes that a map tells of, as bits."""
        bits = path.read_bytes()[::-1].translate(bytes([48]) + bytes([49]) * 255)
        return int(bits or b'0', 2)

    def forget(self, path):
        """A file that does not compile with probes: whoever runs may have executed it."""
        del self.arrivals[path]

    def _all_of(self, path):
        return ((1 << self._count_of(path)) - 1) << self.first[path]

    def parted(self, seen):
        """{path: bits} of the files that any of these probes stands in."""
        found = {path: (seen & self._all_of(path)) >> self.first[path] for path in self.arrivals}
        return {path: bits for path, bits in found.items() if bits}

    def joined(self, seen):
        """The reverse; ALL stands for all of a file."""
        bits = 0
        for path, part in seen.items():
            if path in self.arrivals:
                bits |= (self._all_of(path) if part == ALL else int(part, 16) << self.first[path])
        return bits

    def mask_of(self, path, start, users):
        """Probes of which a test must have passed one to see a change there; None: not known.
        `users` are the files that include a header."""
        source = self.sources[path]
        if path not in self.arrivals and source.path.suffix == '.c':
            return None
        if any(function.start < start < function.end for function in bodies(source)):
            index = bisect.bisect_right(self.arrivals[path], (start, self.count)) - 1
            return 1 << (self.first[path] + self.arrivals[path][index][1])
        mask = 0
        for reader in users if source.path.suffix == '.h' else self._readers(source, start):
            if reader in self.sources and reader not in self.arrivals:
                return None
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


def described(seen, probes):
    """What a test executed, by file, as it is kept; None where it is not known."""
    return None if seen is None else {path: hex(bits) for path, bits in probes.parted(seen).items()}


class Coverage:
    """What is known of each test unmutated: how long it takes, and what it executes. That is kept
    by file: of one that changed it is known who executed any of it, which stands for all of it."""

    def __init__(self, folder, chosen, is_fresh):
        self.folder = folder
        self.path = folder / 'coverage.json'
        self.chosen = chosen
        self.probes = chosen.probes
        texts = {path: self.probes.sources[path].text for path in self.probes.arrivals}
        self.digests = {path: hashlib.sha256(text.encode()).hexdigest()[:16]
                        for path, text in texts.items()}
        kept = json.loads(self.path.read_text()) if self.path.is_file() and not is_fresh else {}
        unknown = set(self.digests) - set(kept.get('files', []))
        if len(unknown) > len(self.digests) / 4:  # it was another sample
            kept = {'files': {}, 'stray': {}, 'tests': {
                name: record for name, record in kept.get('tests', {}).items()
                if record['how'] == 'time'}}
        self.records = {name: record for name, record in kept['tests'].items()
                        if record['how'] != 'failed' or kept['files'] == self.digests}
        for record in self.records.values():
            record['seen'] = self.brought_up(record['seen'], kept['files'])
        self.stray = self.probes.joined(self.brought_up(kept['stray'], kept['files']))

    def brought_up(self, seen, files):
        """What was executed of the sources as they are now, if `files` are those that it was
        executed of. One that had no probes is taken for executed."""
        if seen is None:
            return None
        now = {}
        for path, digest in self.digests.items():
            if files.get(path) == digest:
                if path in seen:
                    now[path] = seen[path]
            elif path in seen or path not in files:
                now[path] = ALL
        return now

    def record(self, test):
        """{'seconds', 'how', 'seen'} of this very test; None if there is none."""
        record = self.records.get(test.name)
        return record if record and record['id'] == self.chosen.id_of(test) else None

    def seen_by(self, test):
        """The probes that it passes, as bits; None: not known."""
        seen = self.record(test)['seen']
        return None if seen is None else self.probes.joined(seen)

    def keep(self, test, seconds, how, seen):
        self.records[test.name] = {'id': self.chosen.id_of(test), 'seconds': seconds, 'how': how,
                                   'seen': described(seen, self.probes)}

    def save(self):
        beside = self.path.with_suffix('.new')
        beside.write_text(json.dumps({'files': self.digests, 'tests': self.records,
                                      'stray': described(self.stray, self.probes)}))
        beside.rename(self.path)

    def measure(self, tests, runner, limit_s):
        """Runs each once, one that fails twice; the tree is unmutated and built."""
        try:
            failed = self._measure(tests, runner, limit_s)
            for test in self._measure(failed, runner, limit_s):
                self.keep(test, 0, 'failed', None)
        finally:
            self.save()  # an end that comes now is no reason to run them again

    def _measure(self, tests, runner, limit_s):
        """Returns those that failed."""
        maps = {test.name: self.folder / f'seen.{number}' for number, test in enumerate(tests)}
        for path in maps.values():
            self.chosen.map(path)
        failed = []
        for number, (test, how, seconds) in enumerate(runner.outcomes(
                sorted(tests, key=lambda test: test.is_alone), lambda _: limit_s,
                lambda test: {'MUTANT': '0', 'MUTANT_SEEN': str(maps[test.name])})):
            if how == 'failed':
                failed.append(test)
            else:
                self.keep(test, seconds, how, self.chosen.seen(maps[test.name]))
            maps[test.name].unlink()
            if number % 20 == 19:
                self.save()
        self.stray |= self.chosen.seen(self.chosen.stray) or 0
        return failed
