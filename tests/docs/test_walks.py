#!/usr/bin/env python3
"""The walks of ARCHITECTURE.md lead through functions that are there: those of a row stand in one
of its files."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import SOURCE, case, main  # noqa: E402

WALKS = 5
ROW = re.compile(r'^\| (`[\w/]+\.c`(?:, `[\w/]+\.c`)*) \| ([^|]+) \|')
TICKED = re.compile(r'`([^`]+)`')


def rows():
    """(line, files, functions) of the tables that say "file" and "function"."""
    is_walk = False
    text = (SOURCE / 'ARCHITECTURE.md').read_text(encoding='utf-8')
    for number, line in enumerate(text.splitlines(), 1):
        is_walk = line.startswith('|') and (is_walk or line == '| file | function | |')
        row = ROW.match(line) if is_walk else None
        if row:
            yield number, TICKED.findall(row.group(1)), TICKED.findall(row.group(2))


def is_defined(function, files):
    definition = re.compile(rf'^\w[^;\n]*\b{function}\([^;{{]*\)\n\{{', re.M)
    return any(definition.search((SOURCE / file).read_text(encoding='utf-8')) for file in files)


@case
def all_walks_are_read():
    text = (SOURCE / 'ARCHITECTURE.md').read_text(encoding='utf-8')
    assert text.count('| file | function | |') == WALKS
    assert len(list(rows())) > 10 * WALKS


@case
def each_step_is_a_function_of_its_file():
    lost = [f'line {line}: {file}' for line, files, _ in rows()
            for file in files if not (SOURCE / file).is_file()]
    assert not lost, lost
    lost = [f'line {line}: {function}' for line, files, functions in rows()
            for function in functions if not is_defined(function, files)]
    assert not lost, lost


if __name__ == '__main__':
    main()
