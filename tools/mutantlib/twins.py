"""Which mutants of a file are the same code: each is a copy of its function beside one that has no
mutant, all compiled at once at -O2, and what the compiler makes of both is compared.

A copy is compiled by itself (noipa), without tables of jumps and without what is folded into one.
So what is found equal is; a mutant that is equal only in the eyes of its callers is not found.
"""

import re

from .choice import function_of, STRICT
from .coverage import bodies

OPTIONS = ['-O2', '-g0', '-S', '-fno-jump-tables', '-fno-ipa-icf', '-fno-stack-protector',
           '-fno-asynchronous-unwind-tables', '-fno-toplevel-reorder', '-fno-section-anchors']
_BODY = re.compile(r'^(\w+)__(\d+):\n(.*?)^\t\.size\t\1__\2,', re.M | re.S)
_LABEL = re.compile(r'\.L(\d+)\b')
_STATIC = re.compile(r'\b(\w+)\.\d+\b')


def head_of(source, function):
    """What stands before a function's brace."""
    before = source.code[:function.start]
    start = max(before.rfind(mark) for mark in ';}') + 1
    lines = []
    for line in source.code[start:function.start].split('\n'):
        lines = [] if line.lstrip().startswith('#') else lines + [line]
    return '\n'.join(lines).strip()


def copy_of(source, function, number, site):
    """A function with this change, or none, by another name."""
    head = re.sub(rf'\b{function.name}\b(?=\s*\()', f'{function.name}__{number}',
                  re.sub(r'\b(?:static|inline)\b', '', head_of(source, function)), count=1)
    body = source.text[function.start:function.end + 1]
    if site:
        begin, end = site.start - function.start, site.end - function.start
        body = body[:begin] + site.replacement + body[end:]
    return f'__attribute__((used, noipa)) {head};\n{head}\n{body}\n'


def text_of(source, mutants):
    """The file with these copies behind it."""
    parts = [f'{STRICT}# 1 "{source.path}"\n{source.text}\n']
    for function in bodies(source):
        of_this = [mutant for mutant in mutants
                   if function_of(source, mutant).name == function.name]
        if of_this:
            parts.append(copy_of(source, function, 0, None))
            parts += [copy_of(source, function, mutant.number, mutant.site) for mutant in of_this]
    return ''.join(parts)


def plain(code):
    """A body without the numbers of its labels."""
    numbers = {}
    code = _LABEL.sub(lambda match: f'.L{numbers.setdefault(match.group(1), len(numbers))}', code)
    return _STATIC.sub(r'\1', code)


def same(assembly):
    """The numbers of those that are what they are without a mutant."""
    found = {}
    for name, number, code in _BODY.findall(assembly):
        found[name, int(number)] = plain(code.replace(f'{name}__{number}', name))
    return {number for (name, number), code in found.items()
            if number and code == found[name, 0]}
