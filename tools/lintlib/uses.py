"""uses: a file includes itself what it uses of the house, not by way of another header.

Only what can be proven: functions that are called, macros, constants, types with a name of their
own, each declared in exactly one header. A pointer to a struct needs no header.
"""

import re

from . import house
from .includes import includes_of
from .tree import without_comments

_WORD = re.compile(r'(?<![\w.>])(?<!struct )(?<!union )([A-Za-z_]\w*)(\s*\()?')
_MACRO = re.compile(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', re.M)
_TYPEDEF = re.compile(r'\btypedef\b[^;{]*?\b(\w+)\s*(?:\[[^\]]*\])?;')
_ENUM = re.compile(r'\benum\b[^;{}()]*\{([^{}]*)\}')
_CONSTANT = re.compile(r'(?:^|,)\s*(\w+)\s*(?==|,|$)')
_FUNCTION = re.compile(r'([A-Za-z_]\w*)\s*\((?!\s*\*)')
_EXTERN = re.compile(r'^extern\b[^;(]*?\b(\w+)(?:\[[^\]]*\])?;', re.M)


def _at_file_level(code):
    """The code with what stands in braces cut out, and in parentheses blanked."""
    kept, braces, parens = [], 0, 0
    for char in code:
        if char == '{':
            kept.append(';' if braces == 0 else '')
            braces += 1
        elif char == '}':
            braces -= 1
        elif braces == 0:
            parens -= char == ')'
            kept.append(char if parens <= 0 or char in '\n' else ' ')
            parens += char == '('
    return ''.join(kept)


def declared(source):
    """What a header gives those who include it: {name: is a function}."""
    names = {name: False for name in _MACRO.findall(without_comments(source.text))}
    code = source.code
    for body in _ENUM.findall(code):
        names.update((name, False) for name in _CONSTANT.findall(body))
    names.update((name, False) for name in _TYPEDEF.findall(code))
    level = _at_file_level(code)
    names.update((name, False) for name in _EXTERN.findall(level))
    for statement in level.split(';'):
        found = _FUNCTION.search(re.sub(r'__attribute__\s*\(.*', '', statement, flags=re.S))
        if found and '=' not in statement and 'typedef' not in statement:
            names[found.group(1)] = True
    return {name: is_function for name, is_function in names.items() if not name.startswith('_')}


def _owners(tree):
    """{name: (header, is a function)} of names that exactly one header of the house declares."""
    owners, several = {}, set()
    for source in tree.c_files:
        if source.path.suffix != '.h' or source.room not in house.ROOMS:
            continue
        for name, is_function in declared(source).items():
            if name in owners:
                several.add(name)
            owners[name] = (str(source.path), is_function)
    return {name: owner for name, owner in owners.items() if name not in several}


def _given(source, headers):
    """What a file has: what it includes, and what the contents pages among that hand on."""
    given = set()
    own = str(source.path.with_suffix('.h'))
    pages = [source]
    while pages:
        for _, path, _ in includes_of(pages.pop()):
            if path in given:
                continue
            given.add(path)
            if path in headers and (path in house.CONTENTS_PAGES or path == own):
                pages.append(headers[path])
    return given


def _missing(source, given, owners):
    """{header: (name, line)} of what a file uses by way of other headers; the first name."""
    missing = {}
    own = declared(source)
    for match in _WORD.finditer(source.code):
        name, is_called = match.groups()
        owner, is_function = owners.get(name, (None, False))
        if owner in (None, str(source.path)) or owner in given or name in own:
            continue
        if is_called or not is_function:
            missing.setdefault(owner, (name, source.line_of(match.start(1))))
    return missing


def check(tree):
    owners = _owners(tree)
    headers = {str(source.path): source for source in tree.c_files if source.path.suffix == '.h'}
    for source in tree.c_files:
        if source.room in house.ROOMS:
            found = _missing(source, _given(source, headers), owners)
            for owner, (name, line) in sorted(found.items()):
                yield source.path, line, f'{name} is of {owner}: include it here'
