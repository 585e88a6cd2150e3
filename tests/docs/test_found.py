#!/usr/bin/env python3
"""Each row of docs/found.md names a test that there is, or says why it has none."""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/cli'))

from cases import case, main  # noqa: E402

TEST = re.compile(r'`([a-z0-9]+/[a-zA-Z0-9_/.]+)(?:: ([a-z0-9_]+))?`')


def rows():
    lines = (ROOT / 'docs/found.md').read_text().splitlines()
    found = [line for line in lines if line.startswith('| ') and line != '| fault | test |']
    assert len(found) > 60, f'{len(found)} rows'
    return found


def sources_of(name):
    path = ROOT / 'tests' / name
    if path.suffix == '.pkt':
        return [path] if path.is_file() else []
    return [file for file in (path.with_suffix('.c'), path.with_suffix('.py')) if file.is_file()]


@case
def every_row_names_a_test_or_a_reason():
    for row in rows():
        assert TEST.search(row) or re.search(r'\| none: [^|]{10,} \|$', row), row


@case
def every_test_that_is_named_is_there():
    for row in rows():
        for name, of_it in TEST.findall(row):
            sources = sources_of(name)
            assert sources, f'{name}: no such test'
            if of_it:
                text = sources[0].read_text()
                assert re.search(rf'^(static void |def |void )(test_)?{of_it}\(', text, re.M), \
                    f'{name} has no {of_it}'


if __name__ == '__main__':
    main()
