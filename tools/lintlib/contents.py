"""contents: headers tell which files there are, as a page of contents does.

A source file of a room has a header of its name, or a comment of a header in its folder, or in one
above, says what it is for; a program, or a driver module, says so itself. What such a comment
names, as `file.c` or `folder/file.h`, is there: in the header's folder, above or below, or among
what the header includes.
"""

import pathlib
import re

from . import house

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)
_SYSTEM = re.compile(r'<[^>\n]*>')
_FILE = re.compile(r'(?<![\w/.-])([a-z]\w*(?:/\w+)*\.[ch])\b')
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
_PROGRAM = re.compile(rf'^\w.*\b(?:{"|".join(sorted(house.NAMES_OF_PROGRAMS))})\b[^;]*\{{', re.M)


def _named(header):
    """(file, line) of what the comments of a header name."""
    for comment in _COMMENT.finditer(header.text):
        text = _SYSTEM.sub(lambda match: ' ' * len(match.group()), comment.group())
        for match in _FILE.finditer(text):
            yield match.group(1), header.line_of(comment.start() + match.start())


def _find(name, header, paths):
    """The file that a header means by this name; None: there is none."""
    here = header.path.parent
    around = [here, *here.parents, pathlib.PurePath('include')]
    for folder in around:
        if folder / name in paths:
            return folder / name
    for path in paths:
        if path.is_relative_to(here) and str(path).endswith(f'/{name}'):
            return path
    for included in _INCLUDE.findall(header.text):
        if included.endswith(f'/{name}'):
            return pathlib.PurePath(included)
    return None


def check(tree):
    rooms = [source for source in tree.c_files if source.room in house.ROOMS]
    paths = {source.path for source in tree.c_files}
    told = {source.path.with_suffix('.c') for source in rooms if source.path.suffix == '.h'}
    for header in rooms:
        if header.path.suffix == '.h':
            for name, line in _named(header):
                path = _find(name, header, paths)
                if path is None:
                    yield header.path, line, f'there is no {name}: say what it is called now'
                told.add(path)
    for source in rooms:
        folder = [other for other in rooms if other.path.parent == source.path.parent]
        is_told = source.path in told or len(folder) == 1 or _PROGRAM.search(source.code)
        if source.path.suffix == '.c' and not is_told:
            yield source.path, 1, 'no header of its folder says what it is for: give it a line'
