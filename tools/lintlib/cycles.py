"""cycles: files of one room that call each other in a circle, ports of the room's own included.

A call is a name followed by `(`. What stands in a table of functions (`.send = wire_send`) is
called by whoever calls a field of that name. Functions handed over as arguments are not followed.
"""

import pathlib
import re

from . import house
from .tree import functions

_CALL = re.compile(r'(?<![\w.>])([A-Za-z_]\w*)\s*\(')
_CALL_OF_FIELD = re.compile(r'(?:\.|->)\s*([A-Za-z_]\w*)\s*\)?\s*\(')
_FIELD_SET = re.compile(r'(?:\.|->)\s*([A-Za-z_]\w*)\s*=(?!=)\s*&?([A-Za-z_]\w*)\s*[,;})]')
_LINE = re.compile(r'^', re.M)
_IS_STATIC = re.compile(r'\bstatic\b')


class Room:
    """Who calls whom in one room. A node is a .c file, or one inline function of a header: who
    calls one of these does not call its neighbours."""

    def __init__(self, sources):
        self.sources = sources
        self.bodies = []  # (node, source, name, where its text begins and ends)
        self.own = {}     # source -> {name: node}: what only this file sees
        self.shared = {}  # name -> node: what the whole room sees
        self.fields = {}  # field -> nodes of the functions that it may hold
        for source in sources:
            self._find_functions(source)
        for source in sources:
            self._find_fields(source)

    def _find_functions(self, source):
        own = self.own[source] = {}
        lines = [match.start() for match in _LINE.finditer(source.code)]
        for function in functions(source):
            is_file = source.path.suffix == '.c'
            node = source.path if is_file else (source.path, function.name)
            is_static = is_file and _IS_STATIC.search(
                source.code, lines[function.first_line - 1], function.start)
            (own if is_static else self.shared)[function.name] = node
            self.bodies.append((node, source, function.start, function.end))

    def _find_fields(self, source):
        for field, name in _FIELD_SET.findall(source.code):
            node = self._node_of(source, name)
            if node:
                self.fields.setdefault(field, set()).add(node)

    def _node_of(self, source, name):
        return self.own[source].get(name) or self.shared.get(name)

    def graph(self):
        """{node: {node that it calls: (source, offset) of the first such call}}"""
        graph = {}
        for node, source, start, end in self.bodies:
            edges = graph.setdefault(node, {})
            for match in _CALL.finditer(source.code, start, end):
                called = self._node_of(source, match.group(1))
                if called and called != node:
                    edges.setdefault(called, (source, match.start(1)))
            for match in _CALL_OF_FIELD.finditer(source.code, start, end):
                for called in self.fields.get(match.group(1), ()):
                    if called != node:
                        edges.setdefault(called, (source, match.start(1)))
        return graph


_TABLE = 'tools/lintlib/house.py'


def _line_of_row(room):
    """Where CYCLES speaks of a room."""
    lines = pathlib.Path(house.__file__).read_text().split('\n')
    begin = next(at for at, line in enumerate(lines) if line.startswith('CYCLES'))
    return next(at for at, line in enumerate(lines[begin:], begin + 1) if f"'{room}'" in line)


def _reachable(graph, begin):
    found, todo = set(), [begin]
    while todo:
        for node in graph.get(todo.pop(), ()):
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


def _components(graph):
    """Sets of nodes each of which reaches all of its set, the largest first."""
    reached = {node: _reachable(graph, node) for node in graph}
    components = []
    for node in sorted(graph, key=str):
        if not any(node in component for component in components):
            components.append({other for other in reached[node]
                               if node in reached.get(other, ())} | {node})
    return sorted(components, key=lambda nodes: -len(_files(nodes)))


def _files(nodes):
    return sorted({node[0] if isinstance(node, tuple) else node for node in nodes}, key=str)


def _calls_within(graph, component):
    """(source, line, node that is called) of every call between the files of a component."""
    for node in sorted(component, key=str):
        for called, (source, offset) in graph[node].items():
            if called in component:
                yield source, source.line_of(offset), called


def _check_room(room, graph):
    allowed = house.CYCLES.get(room, 1)
    largest = 1
    for component in _components(graph):
        files = _files(component)
        largest = max(largest, len(files))
        if len(files) > allowed:
            source, line, called = next(_calls_within(graph, component))
            yield source.path, line, (
                f'{len(files)} files call each other in a circle, at most {allowed} in {room}/: '
                f'{" ".join(path.name for path in files)}; one of the calls is this, to '
                f'{_files([called])[0].name}: give the state one owner')
    if largest < allowed:
        yield _TABLE, _line_of_row(room), (
            f'{room}/ has at most {largest} in a circle now, its row says {allowed}: lower it')


def check(tree):
    rooms = {}
    for source in tree.c_files:
        if source.room in house.ROOMS:
            rooms.setdefault(source.room, []).append(source)
    for room, sources in sorted(rooms.items()):
        yield from _check_room(room, Room(sources).graph())
