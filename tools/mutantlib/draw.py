"""Draws mutants: each line of code has the same chance, so a room's share is that of its lines."""

import difflib
import random

from lintlib import house
from lintlib.tree import functions

from . import sites

# Rooms that are drawn from; examples and the simulator are there for the tests themselves.
LEFT_OUT = ('examples', 'sim')
ROOMS = [room for room in house.ROOMS if room not in LEFT_OUT]


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
        self.text = site.apply(source.text)
        self.diff = ''.join(difflib.unified_diff(
            source.text.splitlines(True), self.text.splitlines(True), str(source.path),
            f'{source.path} (mutant {number})', n=2))
        self.change = f'{source.path}:{site.start}:{site.end}:{site.replacement}'

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


def lines_of(tree, rooms):
    """[(source, [sites of one line])] over all lines of these rooms that have any."""
    lines = []
    for source in tree.c_files:
        if source.room not in rooms or source.path.parts[0] in ('tests', 'include'):
            continue
        by_line = {}
        for site in sites.sites_of(source):
            by_line.setdefault(source.line_of(site.start), []).append(site)
        lines += [(source, by_line[line]) for line in sorted(by_line)]
    return lines


def draw(tree, rooms, seed, count):
    """The first `count` mutants of a seed's, no two of one line; the same from the same sources."""
    random_source = random.Random(seed)
    lines = lines_of(tree, rooms)
    random_source.shuffle(lines)
    return [Mutant(number, source, random_source.choice(line_sites))
            for number, (source, line_sites) in enumerate(lines[:count], 1)]
