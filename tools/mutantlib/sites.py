"""Where a C file can be changed, and into what: every site of every operator, in a fixed order."""

import re

from lintlib import tree

RELATIONAL = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
LOGICAL = {'&&': '||', '||': '&&'}
ARITHMETIC = {'+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '&': '|', '|': '&', '<<': '>>',
              '>>': '<<', '+=': '-=', '-=': '+=', '|=': '&=', '&=': '|='}
FLIPPED = {'true': 'false', 'false': 'true'}

# clang-format sets binary operators between blanks, so a pointer's star is never one of them.
_BINARY = re.compile(r'(?<=\s)(<<|>>|[<>=!+\-|&]=|&&|\|\||[<>+\-*/%&|])(?=\s)')
_STEP = re.compile(r'\+\+|--')
_NUMBER = re.compile(r'(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])')
_BOOL = re.compile(r'\b(?:true|false)\b')
_CONDITION = re.compile(r'\b(?:if|while) \(')
_RETURN = re.compile(r'\breturn\b\s*([^;{}]+);')
_CALL = re.compile(r'\b[A-Za-z_]\w*\(')
_PLAIN = re.compile(r'[&*]?[A-Za-z_](?:\w|->|\.|\[\w+\])*')
_SIZED = re.compile(r'^[ \t]*(?:(?:static|const|struct|enum|union|unsigned|_Alignas\(\w+\))\s+)*'
                    r'\w+ \**\w+((?:\[[^\]\n]*\])+)(?=;|,| =)', re.M)
_DECLARATION = re.compile(r'(?:static|const|volatile|struct|enum|union|unsigned|typedef|_Alignas|'
                          r'_Static_assert)\b|\w+\s+\**\w+\s*(?:=|;|\[|,|\(|$)')
_NO_STATEMENT = re.compile(r'(?:return|if|for|while|else|do|switch|goto|case|default|typedef)\b')
_LABEL = re.compile(r'\s*(?:case\b[^:?]+|default\s*|\w+\s*):(?!:)')
_DESIGNATED = re.compile(r'\s*(\[[^\]]+\]|\.\w+)\s*=\s*([A-Za-z_]\w*)\s*$')
_INITIALISER = re.compile(r'=\s*$')
_ENUM = re.compile(r'\benum\b[^;=(){}]*$')

# What watches and tells, rather than does: a change there is no change of what the code does.
WATCHERS = re.compile(r'\b(?:CHECK\w*|TRACE\w*|PROBE\d|trace_\w+|assert|_Static_assert|'
                      r'static_assert)\s*\(')


class Site:
    """One change of one file: the text from `start` to `end` becomes `replacement`."""

    def __init__(self, start, end, replacement, operator):
        self.start = start
        self.end = end
        self.replacement = replacement
        self.operator = operator

    def apply(self, text):
        return text[:self.start] + self.replacement + text[self.end:]


def closing(code, opening):
    """Where the bracket at `opening` is closed, or None."""
    depth = 0
    for at in range(opening, len(code)):
        if code[at] in '([{':
            depth += 1
        elif code[at] in ')]}':
            depth -= 1
            if depth == 0:
                return at
    return None


def parts(code, start, end):
    """The (start, end) of what commas part between `start` and `end`."""
    depth = 0
    begin = start
    for at in range(start, end):
        if code[at] in '([{':
            depth += 1
        elif code[at] in ')]}':
            depth -= 1
        elif code[at] == ',' and depth == 0:
            yield begin, at
            begin = at + 1
    if code[begin:end].strip():
        yield begin, end


def tables(code):
    """The (start, end, is_enum) of every initialiser and enum at file level, braces included."""
    at = 0
    while True:
        opening = code.find('{', at)
        if opening < 0:
            return
        end = closing(code, opening)
        if end is None:
            return
        head = code[max(code.rfind(mark, 0, opening) for mark in ';}') + 1:opening]
        if _INITIALISER.search(head):
            yield opening, end, False
        elif _ENUM.search(head):
            yield opening, end, True
        at = end + 1


def watched(code):
    """The extents of what only watches."""
    for match in WATCHERS.finditer(code):
        end = closing(code, match.end() - 1)
        if end is not None:
            yield match.start(), end + 1


# --- operators, each over one extent of code -----------------------------------------------------

def binary(code, start, end):
    for match in _BINARY.finditer(code, start, end):
        token = match.group(1)
        for operator, table in (('relational', RELATIONAL), ('logical', LOGICAL),
                                ('arithmetic', ARITHMETIC)):
            if token in table:
                yield Site(match.start(1), match.end(1), table[token], operator)
    for match in _STEP.finditer(code, start, end):
        other = '--' if match.group() == '++' else '++'
        yield Site(match.start(), match.end(), other, 'arithmetic')


def constants(code, start, end):
    sizes = [match.span(1) for match in _SIZED.finditer(code, start, end)]
    for match in _NUMBER.finditer(code, start, end):
        if any(first <= match.start() < last for first, last in sizes):
            continue
        digits, suffix = match.groups()
        value = int(digits, 16 if digits[:2] in ('0x', '0X') else 8 if digits[0] == '0' else 10)
        for near in (value + 1, value - 1):
            if near >= 0:
                shown = hex(near) if digits[:2] in ('0x', '0X') else str(near)
                yield Site(match.start(), match.end(), shown + suffix, 'constant')
    for match in _BOOL.finditer(code, start, end):
        yield Site(match.start(), match.end(), FLIPPED[match.group()], 'constant')


def conditions(code, start, end, text):
    """`text` is the code with what stands in its literals."""
    for match in _CONDITION.finditer(code, start, end):
        last = closing(code, match.end() - 1)
        if last is not None and last <= end:
            inside = text[match.end():last]
            yield Site(match.end(), last, f'!({inside})', 'condition')


def returns(code, start, end, text, is_bool):
    for match in _RETURN.finditer(code, start, end):
        value = match.group(1).strip()
        if value in FLIPPED or value == '0':
            continue  # a constant
        begin = code.index(value, match.start(1))
        value = text[begin:begin + len(value)]
        yield Site(match.start(1), match.end(1), f'!({value})' if is_bool else '0', 'return')


def statements(code, start, end):
    """Statements that can go: calls, assignments, breaks."""
    begin = start + 1
    depth = 0
    for at in range(start + 1, end):
        char = code[at]
        if char in '([':
            depth += 1
        elif char in ')]':
            depth -= 1
        elif depth == 0 and char in ';{}':
            if char == ';':
                yield from _statement(code, begin, at)
            begin = at + 1


def _statement(code, begin, end):
    label = _LABEL.match(code, begin, end)
    while label:
        begin = label.end()
        label = _LABEL.match(code, begin, end)
    text = code[begin:end]
    begin += len(text) - len(text.lstrip())
    text = text.strip()
    # That free() was forgotten is for a leak checker to see, which the tests here run without.
    is_free = re.match(r'free\s*\(', text)
    if text and not is_free and not (_NO_STATEMENT.match(text) or _DECLARATION.match(text)):
        yield Site(begin, end, '', 'statement')


def arguments(code, start, end):
    """Two neighbouring plain arguments change places; where their types differ it won't compile."""
    for match in _CALL.finditer(code, start, end):
        last = closing(code, match.end() - 1)
        if last is None or last > end:
            continue
        spans = list(parts(code, match.end(), last))
        for (a, b), (c, d) in zip(spans, spans[1:]):
            first, second = code[a:b].strip(), code[c:d].strip()
            a = b - len(code[a:b].lstrip())
            if first != second and _PLAIN.fullmatch(first) and _PLAIN.fullmatch(second):
                yield Site(a, d, f'{second}, {first}', 'arguments')


def entries(code, start, end, whole):
    """Entries of a table: each may go, and a value may be that of its neighbour."""
    spans = [span for span in parts(code, start + 1, end) if code[span[0]:span[1]].strip()]
    for begin, last in spans:
        text = code[begin:last]
        begin += len(text) - len(text.lstrip())
        comma = last + 1 if code[last] == ',' else last
        yield Site(begin, comma, '', 'entry')
    named = [(_DESIGNATED.match(code, *span), span) for span in spans]
    for (one, _), (other, _) in zip(named, named[1:]):
        if one and other and one.group(2) != other.group(2):
            yield Site(one.start(2), one.end(2), whole[other.start(2):other.end(2)], 'entry')


# --- a file --------------------------------------------------------------------------------------

def _returns_bool(code, function):
    head = code[max(code.rfind(mark, 0, function.start) for mark in ';}') + 1:function.start]
    return re.search(r'\bbool\s+\w+\s*\(', head) is not None


def sites_of(source):
    """Every site of a C file, in order of place; what only watches is left out."""
    code = source.code
    found = []
    for function in tree.functions(source):
        extent = code, function.start, function.end
        for operator in (binary, constants, statements, arguments):
            found += operator(*extent)
        found += conditions(*extent, source.text)
        found += returns(*extent, source.text, _returns_bool(code, function))
    for start, end, is_enum in tables(code):
        found += constants(code, start, end)
        if not is_enum:
            found += entries(code, start, end, source.text)
            found += binary(code, start, end)
    spared = list(watched(code))
    found = [site for site in found
             if not any(first < site.end and site.start < last for first, last in spared)]
    return sorted(found, key=lambda site: (site.start, site.end, site.operator, site.replacement))
