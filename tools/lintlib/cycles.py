"""cycles: no files of one room call each other in a circle, ports of the room's own included.

A call is a name followed by `(`. What stands in a table of functions (`.send = wire_send`) is
called by whoever calls a field of that name; an inline function in the header that declares the
table's struct calls what stands in tables of that struct, and in no other. Ports of base/ belong to
each room. Functions handed over as arguments are not followed.

A wrapper has functions of the port that it calls. Which of a room's stand before which others is in
house.STACKS: from the level of one, a call through the port leads further down alone.
"""

import re

from . import house
from .tree import functions

_CALL = re.compile(r'(?<![\w.>])([A-Za-z_]\w*)\s*\(')
_CALL_OF_FIELD = re.compile(r'(?:\.|->)\s*([A-Za-z_]\w*)\s*\)?\s*\(')
_FIELD_SET = re.compile(r'(?:\.|->)\s*([A-Za-z_]\w*)\s*=(?!=)\s*&?([A-Za-z_]\w*)\s*[,;})]')
_DECLARED = re.compile(r'\bstruct\s+(\w+)\s*\{([^}]*)\}')
_DECLARED_FIELD = re.compile(r'\(\s*\*\s*(\w+)\s*\)\s*\(')
_FIELD_NAMED = re.compile(r'\.(\w+)\s*=(?!=)')
_WORD = re.compile(r'\w+')
_TABLE_BEGINS = re.compile(r'\bstruct\s+(\w+)\s*(?:\w+\s*=\s*|\)\s*)\{')
_LINE = re.compile(r'^', re.M)
_IS_STATIC = re.compile(r'\bstatic\b')


class Room:
    """Who calls whom in one room. A node is a .c file, or one inline function of a header: who
    calls one of these does not call its neighbours."""

    def __init__(self, sources, ports=()):
        sources = [*sources, *ports]
        self.bodies = []  # (node, source, name, where its text begins and ends)
        self.own = {}     # source -> {name: node}: what only this file sees
        self.shared = {}  # name -> node: what the whole room sees
        self.fields = {}  # field -> {(struct or None: not known, node of what it may hold)}
        self.ports = set()  # headers that declare tables: who goes through them is in the circle
        self.struct_of = {}  # header -> {field: struct that is declared there}
        self.words_of = {}   # struct -> words of its declaration
        for source in sources:
            self._find_structs(source)
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

    def _find_structs(self, source):
        if source.path.suffix != '.h':
            return
        for struct, body in _DECLARED.findall(source.code):
            self.words_of[struct] = set(_WORD.findall(body))
            for field in _DECLARED_FIELD.findall(body):
                self.struct_of.setdefault(source.path, {})[field] = struct
                self.ports.add(source.path)

    def _find_fields(self, source):
        tables = list(_tables(source.code))
        for match in _FIELD_SET.finditer(source.code):
            field, name = match.groups()
            node = self._node_of(source, name)
            if node:
                around = [table for table in tables if table[1] <= match.start() < table[2]]
                struct, named = (around[-1][0], around[-1][3]) if around else (None, {field})
                self.fields.setdefault(field, set()).add((struct, frozenset(named), node))

    def _held(self, source, field):
        """What a call of a field may reach: where the struct of the one or of the other is not
        known, what has no field that the struct has not."""
        wanted = self.struct_of.get(source.path, {}).get(field)
        return {node for struct, named, node in self.fields.get(field, ())
                if wanted is None or struct == wanted or
                (struct is None and named <= self.words_of[wanted])}

    def _node_of(self, source, name):
        return self.own[source].get(name) or self.shared.get(name)

    def graph(self, stacks=()):
        """{node: {node that it calls: (source, offset) of the first such call}}"""
        graph = self._graph_of_names()
        return _leveled(graph, stacks, self.ports) if stacks else graph

    def _graph_of_names(self):
        graph = {}
        for node, source, start, end in self.bodies:
            edges = graph.setdefault(node, {})
            for match in _CALL.finditer(source.code, start, end):
                called = self._node_of(source, match.group(1))
                if called and called != node:
                    edges.setdefault(called, (source, match.start(1)))
            for match in _CALL_OF_FIELD.finditer(source.code, start, end):
                for called in self._held(source, match.group(1)):
                    if called != node:
                        edges.setdefault(called, (source, match.start(1)))
        return graph


def _level_of(node, stacks):
    """(stack, how far down) of a wrapper's file, or None."""
    for stack in stacks:
        for depth, path in enumerate(stack):
            if not isinstance(node, tuple) and str(node).startswith(path):
                return stack, depth
    return None


def _leveled(graph, stacks, ports):
    """The same graph with nodes (node, level): a wrapper is at its own, all others once at each
    from which they are reached. A call of a port goes down within a stack."""
    leveled = {}
    todo = [(node, _level_of(node, stacks)) for node in graph]
    while todo:
        node, level = here = todo.pop()
        if here in leveled:
            continue
        edges = leveled[here] = {}
        is_port = isinstance(node, tuple) and node[0] in ports
        for called, where in graph.get(node, {}).items():
            own = _level_of(called, stacks)
            if is_port and own and level and own[0] is level[0] and own[1] <= level[1]:
                continue
            there = (called, own or level)
            edges[there] = where
            todo.append(there)
    return leveled


def _tables(code):
    """(struct or None, begin, end, names of its fields) of what stands in braces behind a `=` or a
    `(struct name)`, the outer before the inner."""
    structs = {match.end() - 1: match.group(1) for match in _TABLE_BEGINS.finditer(code)}
    for match in re.finditer(r'(=\s*|\(\s*struct\s+\w+\s*\)\s*)\{', code):
        begin = match.end()
        depth, at, flat = 1, begin, []
        while depth and at < len(code):
            depth += {'{': 1, '}': -1}.get(code[at], 0)
            flat.append(code[at] if depth == 1 else ' ')
            at += 1
        yield structs.get(begin - 1), begin, at, set(_FIELD_NAMED.findall(''.join(flat)))


def _reachable(graph, begin):
    found, todo = set(), [begin]
    while todo:
        for node in graph.get(todo.pop(), ()):
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


def _components(graph, ports=()):
    """Sets of nodes each of which reaches all of its set, the largest first."""
    reached = {node: _reachable(graph, node) for node in graph}
    components = []
    for node in sorted(graph, key=str):
        if not any(node in component for component in components):
            components.append({other for other in reached[node]
                               if node in reached.get(other, ())} | {node})
    return sorted(components, key=lambda nodes: -len(_files(nodes, ports)))


def _file_of(node):
    while isinstance(node, tuple):  # of a function, or at a level
        node = node[0]
    return node


def _files(nodes, ports=()):
    return sorted({_file_of(node) for node in nodes} - set(ports), key=str)


def _calls_within(graph, component):
    """(source, line, node that is called) of every call between the files of a component."""
    for node in sorted(component, key=str):
        for called, (source, offset) in graph[node].items():
            if called in component:
                yield source, source.line_of(offset), called


def _check_room(room, graph, ports):
    for component in _components(graph, ports):
        files = _files(component, ports)
        if len(files) > 1:
            source, line, called = next(_calls_within(graph, component))
            yield source.path, line, (
                f'{len(files)} files of {room}/ call each other in a circle: '
                f'{" ".join(path.name for path in files)}; one of the calls is this, to '
                f'{_files([called])[0].name}: give the state one owner')


def check(tree):
    rooms = {}
    for source in tree.c_files:
        if source.room in house.ROOMS:
            rooms.setdefault(source.room, []).append(source)
    ports = [source for source in rooms.get('base', ()) if source.path.name.startswith('port_')]
    for name, sources in sorted(rooms.items()):
        room = Room(sources, () if name == 'base' else ports)
        yield from _check_room(name, room.graph(house.STACKS.get(name, ())), room.ports)
