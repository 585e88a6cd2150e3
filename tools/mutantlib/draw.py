"""Draws mutants: each line of code has the same chance, so a room's share is that of its lines.

A line's place in the order of a seed, and what becomes of it, follow from the seed, its function
and its own words: who changes other lines does not change the sample, and it can be gone on with.
"""

import collections
import difflib
import functools
import hashlib

from lintlib import house
from lintlib.tree import functions

from . import sites

# Rooms that are drawn from; examples and the simulator are there for the tests themselves.
LEFT_OUT = ('examples', 'sim')
ROOMS = [room for room in house.ROOMS if room not in LEFT_OUT]
# A mutant's number is the line's, too: two of a sample with the same are one in millions.
NUMBER_MAX = 2 ** 31 - 2


class Mutant:
    def __init__(self, number, source, site):
        self.number = number
        self.source = source
        self.site = site
        self.path = source.path
        self.room = source.room
        self.start = site.start
        self.line = source.line_of(site.start)
        self.function = next((function.name for function in functions(source)
                              if function.start < site.start < function.end), None)
        self.operator = site.operator
        self.change = f'{source.path}:{site.start}:{site.end}:{site.replacement}'

    @property
    def text(self):
        return self.site.apply(self.source.text)

    @functools.cached_property
    def diff(self):
        return ''.join(difflib.unified_diff(
            self.source.text.splitlines(True), self.text.splitlines(True), str(self.path),
            f'{self.path} (mutant {self.number})', n=2))

    def __str__(self):
        return f'{self.path}:{self.line} {self.operator}'


def rooms_named(words):
    """The rooms that ROOM names: several, parted by commas; a folder stands for all within it."""
    rooms = []
    for word in words.split(','):
        word = word.strip().rstrip('/')
        found = [room for room in house.ROOMS
                 if room == word or room.startswith(word + '/')]
        if not found:
            raise ValueError(f'{word} is not a room; they stand in tools/lintlib/house.py')
        rooms += found
    return rooms


def lots(seed, *words):
    """A number that the seed draws for these words, of 256 bits."""
    return int.from_bytes(hashlib.sha256(repr((seed, *words)).encode()).digest(), 'big')


def lines_of(source):
    """[(words, sites)] of the lines of a file that can be changed. The words are those of no other
    line: where it stands twice in a function, which of them it is."""
    in_functions = [(function.start, function.end, function.name) for function in functions(source)]
    by_line = {}
    for site in sites.sites_of(source):
        by_line.setdefault(source.line_of(site.start), []).append(site)
    lines, times = [], collections.Counter()
    for number in sorted(by_line):
        start = by_line[number][0].start
        function = next((name for first, last, name in in_functions if first < start < last), None)
        words = str(source.path), function, source.lines[number - 1].strip()
        times[words] += 1
        lines.append(((*words, times[words]), by_line[number]))
    return lines


def draw(tree, rooms, seed, count):
    """The first `count` mutants of a seed's, no two of one line."""
    lots_of_lines = sorted(
        ((lots(seed, *words), source, line_sites) for source in tree.c_files
         if source.room in rooms and source.path.parts[0] not in ('tests', 'include')
         for words, line_sites in lines_of(source)), key=lambda line: line[0])
    return [_of_line(*line) for line in lots_of_lines[:count]]


def draw_file(source, seed):
    """What the seed has for each line of one file, in the order of the lines."""
    return [_of_line(lots(seed, *words), source, line_sites)
            for words, line_sites in lines_of(source)]


def every_of(source):
    """All mutants of one file, numbered in the order of their places."""
    return [Mutant(number, source, site)
            for number, site in enumerate(sites.sites_of(source), 1)]


def _of_line(lot, source, line_sites):
    return Mutant(lot % NUMBER_MAX + 1, source, line_sites[lot // NUMBER_MAX % len(line_sites)])
