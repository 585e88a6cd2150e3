"""includes: who may include whom, in which form, and no cycle between headers."""

import pathlib
import re

from . import house
from .tree import room_of, without_comments

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.M)


def includes_of(source):
    """(line, path, is_quoted) of every include line."""
    for match in _INCLUDE.finditer(without_comments(source.text)):
        quoted, angle = match.groups()
        yield source.line_of(match.start(match.lastindex)), quoted or angle, quoted is not None


def _check_quoted(tree, source, path):
    """What is wrong with a quoted include, or None."""
    room = room_of(pathlib.PurePath(path))
    if path.startswith(('.', '/')) or '/' not in path:
        return f'"{path}": write the path from the root of the tree, "room/file.h"'
    if not (tree.root / path).is_file():
        return f'"{path}" does not exist (paths start at the root of the tree)'
    if source.room == 'tests' or room == source.room:
        return None
    if source.room == 'include':
        return f'"{path}": a public header includes only system and <weft/...> headers'
    if source.room not in house.ROOMS:
        return None
    allowed, why = house.ROOMS[source.room]
    if room in house.ROOMS and room in allowed.split():
        files, why = house.ONLY_IN.get((source.room, room), (None, None))
        if files is None or files.match(str(source.path)):
            return None
        return f'"{path}": of {source.room}/ only some files may include {room}/: {why}'
    return f'"{path}": {source.room}/ may include {_listed(allowed)} only: {why}'


def _listed(allowed):
    return ', '.join(name + '/' if name in house.ROOMS else f'<{name}>'
                     for name in allowed.split()) or 'nothing'


def _check_angle(tree, source, path):
    """What is wrong with an angle-bracket include, or None."""
    if source.room not in house.ROOMS:
        return None
    allowed, why = house.ROOMS[source.room]
    for group, pattern in house.HEADERS.items():
        if pattern.match(path):
            if group in allowed.split():
                return None
            return f'<{path}>: not a header for {source.room}/: {why}'
    if source.room in house.ENGINE_ROOMS and path not in house.ENGINE_SYSTEM_HEADERS:
        return f'<{path}>: an engine room takes only types, memory and text from the system'
    if room_of(pathlib.PurePath(path)) in house.ROOMS and (tree.root / path).is_file():
        return f'<{path}>: a header of a room is included as "{path}"'
    return None


def _find_cycle(graph):
    """One cycle in {header: [headers]}, as a list that ends where it began, or None."""
    done = set()
    for begin in sorted(graph):
        path = []
        stack = [(begin, iter(graph[begin]))] if begin not in done else []
        while stack:
            node, rest = stack[-1]
            if len(path) < len(stack):
                path.append(node)
            following = next(rest, None)
            if following is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif following in path:
                return path[path.index(following):] + [following]
            elif following in graph and following not in done:
                stack.append((following, iter(graph[following])))
    return None


def _graph_of_headers(tree):
    graph = {}
    for source in tree.c_files:
        if source.path.suffix == '.h':
            key = '/'.join(source.path.parts[1:] if source.room == 'include' else source.path.parts)
            graph[key] = [path for _, path, _ in includes_of(source)]
    return graph


def check(tree):
    for source in tree.c_files:
        if source.room not in house.ROOMS and source.room not in ('tests', 'include', 'bench'):
            yield source.path, 1, (f'{source.room or "the root"}/ is not a room: give it a line in '
                                   'ROOMS of tools/lintlib/house.py')
        for line, path, is_quoted in includes_of(source):
            problem = (_check_quoted(tree, source, path) if is_quoted
                       else _check_angle(tree, source, path))
            if problem:
                yield source.path, line, problem
    cycle = _find_cycle(_graph_of_headers(tree))
    if cycle:
        yield cycle[0], 1, 'headers include each other: ' + ' -> '.join(cycle)
