"""shape, leftovers, calls, effects, mirrors: what can be seen by looking at one file."""

import pathlib
import re

from . import house
from .tree import functions, without_comments


def check_shape(tree):
    for source in tree.files:
        if len(source.lines) > house.FILE_LINES_MAX:
            yield source.path, house.FILE_LINES_MAX + 1, (
                f'the file has {len(source.lines)} lines, at most {house.FILE_LINES_MAX}: '
                'one file owns one thing')
        is_said = 'golden' in pathlib.PurePath(source.path).parts  # by a program, as it says it
        for number, line in enumerate(source.lines, 1):
            if len(line) > house.LINE_COLUMNS_MAX and not is_said:
                yield source.path, number, (
                    f'the line has {len(line)} columns, at most {house.LINE_COLUMNS_MAX}')
        if not source.is_c:
            continue
        for function in functions(source):
            length = function.last_line - function.first_line + 1
            if length > house.FUNCTION_LINES_MAX:
                yield source.path, function.first_line, (
                    f'{function.name}() has {length} lines, at most {house.FUNCTION_LINES_MAX}: '
                    'split decision, computation and effect')


# Spelt apart, so that this file does not find itself.
_LEFTOVER = re.compile(r'\b(' + '|'.join(('FIX' 'ME', 'X' 'XX', 'TO' 'DO', 'HA' 'CK')) + r')\b')


def check_leftovers(tree):
    for source in tree.files:
        for number, line in enumerate(source.lines, 1):
            match = _LEFTOVER.search(line)
            if match:
                yield source.path, number, (f'{match.group()}: do it, or say in plain words what '
                                            'is missing')


def _pattern(words):
    """Matches a call of any of `words`; members (`port->send(`) and longer names do not match."""
    calls = '|'.join(word for word in words if not word.endswith('!'))
    names = '|'.join(word[:-1] for word in words if word.endswith('!'))
    pattern = rf'(?<![\w.])(?<!->)({calls})\s*\('
    if names:
        pattern += rf'|(?<![\w.])(?<!->)({names})\b'
    return re.compile(pattern)


def _replacement(table, word):
    for key, replacement in table.items():
        if re.fullmatch(key.rstrip('!'), word):
            return replacement
    raise KeyError(word)


def _find_calls(source, table):
    """(offset, word, replacement) of every use of a banned word."""
    for match in _pattern(table).finditer(source.code):
        word = match.group(match.lastindex)
        yield match.start(match.lastindex), word, _replacement(table, word)


def _enclosing(source_functions, offset):
    for function in source_functions:
        if function.start <= offset <= function.end:
            return function.name
    return None


def check_calls(tree):
    for source in tree.c_files:
        for offset, word, replacement in _find_calls(source, house.BANNED_EVERYWHERE):
            yield source.path, source.line_of(offset), f'{word} is banned: use {replacement}'
        if source.room not in house.ENGINE_ROOMS or str(source.path) == house.STOPS_THE_PROCESS:
            continue
        for offset, word, replacement in _find_calls(source, house.BANNED_IN_ENGINE):
            yield source.path, source.line_of(offset), (
                f'{word} is banned in engine rooms: use {replacement}')
        own = list(functions(source))
        for offset, word, replacement in _find_calls(source, house.ALLOCATION):
            name = _enclosing(own, offset)
            if not name or not house.MAY_ALLOCATE.search(name):
                yield source.path, source.line_of(offset), (
                    f'{word} in {name or "file scope"}: engine rooms use {replacement}')


_CHECK = re.compile(r'(?<!define )\bCHECK\s*\(')
_CALL = re.compile(r'([A-Za-z_]\w*)\s*\(')
_ASSIGNMENT = re.compile(r'\+\+|--|<<=|>>=|(?<![=!<>])=(?!=)')


def _conditions(source):
    """(offset, text) of the condition of every CHECK."""
    for match in _CHECK.finditer(source.code):
        depth, end = 1, match.end()
        while depth > 0 and end < len(source.code):
            depth += {'(': 1, ')': -1}.get(source.code[end], 0)
            end += 1
        yield match.start(), source.code[match.end():end - 1]


def check_effects(tree):
    for source in tree.c_files:
        if source.room not in house.ROOMS:
            continue
        for offset, condition in _conditions(source):
            called = [name for name in _CALL.findall(condition) if not house.ANSWERS.search(name)]
            found = _ASSIGNMENT.findall(condition) + [f'{name}()' for name in called]
            if found:
                yield source.path, source.line_of(offset), (
                    f'a CHECK has no side effect, and {found[0]} may: do it before, check the '
                    'result')


def _callee(code, offset):
    """The function whose parameters stand at `offset`; '' if none do."""
    depth = 0
    for at in range(offset - 1, -1, -1):
        if code[at] in ';{}':
            return ''
        depth += {')': 1, '(': -1}.get(code[at], 0)
        if depth < 0:
            return re.search(r'(\w*)\)?\s*$', code[:at]).group(1)
    return ''


def check_reasons(tree):
    for source in tree.c_files:
        if source.room not in house.ROOMS:
            continue
        for match in house.REASON_AS_OCTETS.finditer(source.code):
            if not house.MAY_TAKE_OCTETS.search(_callee(source.code, match.start())):
                yield source.path, source.line_of(match.start()), (
                    f'{match.group()}: how long it may be nobody checks; give reasons as '
                    'struct why of base/why.h')


_MIRROR = re.compile(r'\bSTATIC_CHECK\s*\(\s*(?:\(int\)\s*)?([A-Z][\w#]*)\s*==\s*'
                     r'(?:\(int\)\s*)?([A-Z][\w#]*)\s*\)')


def check_mirrors(tree):
    for source in tree.c_files:
        if source.room not in house.ROOMS:
            continue
        for match in _MIRROR.finditer(without_comments(source.text)):
            if not any(house.MAY_BE_MIRRORED.match(name) for name in match.groups()):
                yield source.path, source.line_of(match.start()), (
                    f'{match.group(1)} and {match.group(2)} are one thing with two names: give it '
                    'one, in the lowest room that says it, or in base/')


def _foreign_words(source):
    """(words, who does not use them, why) of this file."""
    if source.room in house.FOREIGN_WORDS:
        words, why = house.FOREIGN_WORDS[source.room]
        yield words, f'{source.room}/', why
    for files, words, why in house.FOREIGN_WORDS_OF_FILES:
        if files.fullmatch(str(source.path)):
            yield words, source.path.name, why


def check_neutral(tree):
    for source in tree.c_files:
        for words, who, why in _foreign_words(source):
            for number, line in enumerate(source.lines, 1):
                match = words.search(line)
                if match:
                    yield source.path, number, f'{match.group()}: {who} {why}'
