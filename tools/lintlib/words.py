"""words: one word for one thing in what people read: man pages, documents, and messages."""

import re

from . import house

_FENCE = re.compile(r'^```.*?^```', re.M | re.S)
_INDENTED = re.compile(r'^(?: {4}|\t).*$', re.M)
_SPAN = re.compile(r'`[^`\n]*`')
_LINK = re.compile(r'\]\([^)\n]*\)')
_LITERAL = re.compile(r'^\.Bd -literal.*?^\.Ed', re.M | re.S)
_NAMES = re.compile(r'^\.(?:It )?(?:Ev|Cm|Fl|Li|Pa|Va|Fn|Fa|Dl|Xr|Nm)\b.*$', re.M)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


def _blank(match):
    return re.sub(r'[^\n]', ' ', match.group())


def _prose(path, text):
    """What of a file is written for people; names of the program's own are left out."""
    if path.suffix == '.md':
        patterns = (_FENCE, _INDENTED, _SPAN, _LINK)
    elif path.suffix in ('.c', '.h'):
        kept = [match.span() for match in _STRING.finditer(text)]
        blank = re.sub(r'[^\n]', ' ', text)
        for begin, end in kept:
            blank = blank[:begin] + text[begin:end] + blank[end:]
        return blank
    else:
        patterns = (_LITERAL, _NAMES)
    for pattern in patterns:
        text = pattern.sub(_blank, text)
    return text


def _files(tree):
    """(path, text) of documents and man pages, which no other check sees, and of messages."""
    for path in sorted(tree.root.glob('*.md')) + sorted(tree.root.glob('docs/*.md')) + \
            sorted(tree.root.glob('man/*.[0-9]')):
        relative = path.relative_to(tree.root)
        if relative.name not in house.WORDS_OF_OTHERS:
            yield relative, path.read_text(encoding='utf-8')
    for source in tree.c_files:
        if source.room in house.ROOMS_WITH_MESSAGES:
            yield source.path, source.text


def check(tree):
    for path, text in _files(tree):
        prose = _prose(path, text)
        for pattern, instead in house.WORDS:
            for match in pattern.finditer(prose):
                said = re.sub(r'\s+', ' ', match.group())
                yield path, prose.count('\n', 0, match.start()) + 1, f'"{said}": say {instead}'
