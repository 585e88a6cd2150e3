#!/usr/bin/env python3
"""The tables of the source documents and their mutants (tools/mutantlib/named.py) agree: each row
is an element, has its number, and names mutants that there are, or a reason; their tests are there.
That their texts are is for tools/lint to see (`elements`), what they do to the tests for
`make mechanisms`.
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
def every_test_has_the_case():
    for mutant in all_of():
        room, _, name = mutant.test.partition('/')
        if room == 'lint':
            assert mutant.case == name and f"    '{name}': (" in text_of('tools/lint'), mutant
            continue
        script = f'tests/{room}/test_{name}.py'
        source = text_of(script if (ROOT / script).is_file() else f'tests/{room}/test_{name}.c')
        assert re.search(rf'^(static void|def) {mutant.case}\(', source, re.M), mutant


@case
def documents_name_all_mutants_and_no_others():
    names = {mutant.name for mutant in all_of()}
    assert len(names) == len(all_of()), 'a name is given twice'
    named = set()
    for document, path in DOCUMENTS.items():
        named |= set(re.findall(rf'`({document}-[a-z-]+)`', text_of(path)))
    assert named == names, f'without a mutant: {named - names}; in no row: {names - named}'


def tables_of(path):
    """The rows of each table of elements: those whose last column is the mutant."""
    tables = re.findall(r'^\|[^\n]*\| mutant \|\n\|[-|]+\n((?:\|.*\n)+)', text_of(path), re.M)
    assert tables, path
    return [table.splitlines() for table in tables]


def is_held(document, row):
    return re.search(rf'`{document}-[a-z-]+` \|$', row) is not None


@case
def elements_are_numbered_without_a_gap():
    for path in DOCUMENTS.values():
        for rows in tables_of(path):
            for number, row in enumerate(rows, 1):
                assert row.startswith(f'| {number} | '), f'{path}: not row {number}: {row[:80]}'


@case
def every_row_names_a_mutant_or_a_reason():
    for document, path in DOCUMENTS.items():
        for rows in tables_of(path):
            for row in rows:
                has_reason = re.search(r'\| none: [^|]{20,} \|$', row)
                assert is_held(document, row) or has_reason, f'{path}: {row[:80]}'


@case
def pages_say_how_many_elements_there_are_and_how_many_hold():
    for document, path in DOCUMENTS.items():
        said = re.findall(r'^(\d+) elements, (\d+) hold\. ', text_of(path), re.M)
        rows = tables_of(path)[0]
        held = sum(is_held(document, row) for row in rows)
        assert said == [(str(len(rows)), str(held))], f'{path}: {said}, but {held} of {len(rows)}'


@case
def rows_of_the_node_name_the_tests_of_their_mutants():
    of_name = {mutant.name: mutant for mutant in all_of()}
    for row in sum(tables_of(DOCUMENTS['node']), []):
        *_, shown, names = row.split(' | ')
        tests = {}
        for programs, cases in (part.split(': ') for part in shown.split('; ')):
            tests.update(dict.fromkeys(programs.split(', '), cases))
        for mutant in filter(None, map(of_name.get, re.findall(r'[\w-]+', names))):
            room, _, name = mutant.test.partition('/')
            cases = tests.get('lint' if room == 'lint' else name, '')
            assert cases == 'all' or f'`{mutant.case}`' in cases, f'not in its row: {mutant}'


if __name__ == '__main__':
    main()
