#!/usr/bin/env python3
"""The tables of the source documents and their mutants (tools/mutantlib/named.py) agree: each row
names mutants that there are, and their texts and tests are there. What the mutants do to the tests
is for `make mechanisms` to see.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
sys.path.insert(0, str(ROOT / 'tests/cli'))

from cases import case, main  # noqa: E402
from mutantlib.named import DOCUMENTS, all_of  # noqa: E402


def text_of(path):
    return (ROOT / path).read_text()


@case
def every_text_stands_once_in_its_file():
    for mutant in all_of():
        times = text_of(mutant.file).count(mutant.old)
        assert times == 1, f'{mutant.name}: {mutant.file} has its text {times} times'
        assert mutant.old != mutant.new, mutant.name


@case
def every_test_has_the_case():
    for mutant in all_of():
        room, _, name = mutant.test.partition('/')
        source = text_of(f'tests/{room}/test_{name}.c')
        assert re.search(rf'^static void {mutant.case}\(', source, re.M), mutant


@case
def documents_name_all_mutants_and_no_others():
    names = {mutant.name for mutant in all_of()}
    assert len(names) == len(all_of()), 'a name is given twice'
    named = set()
    for document, path in DOCUMENTS.items():
        named |= set(re.findall(rf'`({document}-[a-z-]+)`', text_of(path)))
    assert named == names, f'without a mutant: {named - names}; in no row: {names - named}'


@case
def every_row_names_a_mutant():
    for document, path in DOCUMENTS.items():
        tables = re.findall(r'^\|[^\n]*\| mutant \|\n\|[-|]+\n((?:\|.*\n)+)', text_of(path), re.M)
        assert tables, path
        for table in tables:
            for row in table.splitlines():
                assert re.search(rf'`{document}-[a-z-]+` \|$', row), f'{path}: {row[:80]}'


if __name__ == '__main__':
    main()
