"""tested: each counter is named in a test.

What counts is the list that a header makes its counters of, `#define ROOM_COUNTERS(X)` with a line
`X(name, "what")` for each, and likewise `_PEAKS`. A counter that no test names may count anything.
"""

import re

_LIST = re.compile(r'^#define\s+\w*_(?:COUNTERS|PEAKS)\(X\)((?:[^\n]*\\\n)*[^\n]*)', re.M)
_COUNTER = re.compile(r'\bX\((\w+)')
_WORD = re.compile(r'\w+')


def check(tree):
    named = set()
    for source in tree.files:
        if source.path.parts[0] in ('tests', 'sim'):
            named.update(_WORD.findall(source.text))
    for source in tree.c_files:
        if source.path.suffix != '.h' or source.path.parts[0] == 'tests':
            continue
        for found in _LIST.finditer(source.text):
            for counter in _COUNTER.finditer(found.group(1)):
                if counter.group(1) not in named:
                    yield source.path, source.line_of(found.start(1) + counter.start()), (
                        f'no test names the counter {counter.group(1)}: see it count, or drop it')
