"""names: a global name stands for one thing in the whole tree."""

import re

from . import house
from .tree import functions

_LINE = re.compile(r'^', re.M)
_IS_STATIC = re.compile(r'\bstatic\b')
_VARIABLE = re.compile(
    r'^(?!(?:static|extern|typedef)\b)[A-Za-z_][\w \t*]*?\b(\w+)(?:\[\w*\])*\s*=', re.M)


def _definitions(source):
    """(name, line) of every function and initialised variable of a .c file that others can see."""
    lines = [match.start() for match in _LINE.finditer(source.code)]
    inside = []
    for function in functions(source):
        head = lines[function.first_line - 1]
        inside.append((head, function.end))
        if not _IS_STATIC.search(source.code, head, function.start):
            yield function.name, function.first_line
    for match in _VARIABLE.finditer(source.code):
        if not any(begin <= match.start() <= end for begin, end in inside):
            yield match.group(1), source.line_of(match.start(1))


def check(tree):
    first = {}
    for source in tree.c_files:
        if source.path.suffix != '.c' or source.room not in house.ROOMS:
            continue
        for name, line in _definitions(source):
            if name in house.NAMES_OF_PROGRAMS:
                continue
            other, other_line = first.setdefault(name, (source.path, line))
            if (other, other_line) != (source.path, line):
                yield source.path, line, (f'{name} is a name of {other}:{other_line} already: what '
                                          'others can see has a name of its own in the whole tree')
