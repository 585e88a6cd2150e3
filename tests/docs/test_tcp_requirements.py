#!/usr/bin/env python3
"""docs/tcp.md has a row for each requirement of RFC 9293, and what its tables name is there."""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/cli'))

from cases import case, main  # noqa: E402

SCRIPTS = ROOT / 'tests/net/scripts'
# Appendix B of the RFC: the last number of each kind.
LAST = {'MUST': 69, 'SHLD': 31, 'MAY': 18, 'REC': 1}


def rows():
    text = (ROOT / 'docs/tcp.md').read_text()
    return [row for row in text.splitlines() if re.match(r'\| (MUST|SHLD|MAY|REC)-', row)]


@case
def every_number_has_one_row():
    numbers = [row.split('|')[1].strip() for row in rows()]
    assert numbers == [f'{kind}-{n}' for kind, last in LAST.items() for n in range(1, last + 1)]


@case
def every_row_names_what_shows_it_or_says_that_it_is_not_met():
    for row in rows():
        where, shown = (cell.strip() for cell in row.split('|')[3:5])
        assert shown != '–' or where != '', row
        assert '_' in shown or '`' in shown or shown.startswith(('all', '–')), row


@case
def every_script_that_is_named_is_there():
    for row in rows():
        folder = None
        for name in re.findall(r'(?<![a-z0-9])_([a-z0-9/_*]+)_(?![a-z0-9])', row.split('|')[4]):
            folder, name = name.split('/') if '/' in name else (folder, name)
            assert list((SCRIPTS / folder).glob(f'{name}.pkt')), f'{folder}/{name}: no such script'


@case
def every_test_that_is_named_is_there():
    for row in rows():
        for name in re.findall(r'`(tests/[a-z_/]+\.[a-z]+)`', row):
            assert (ROOT / name).exists(), f'{name}: no such test'


def shown_in(heading):
    """The last cells of the tables behind a heading, up to the next."""
    text = (ROOT / 'docs/tcp.md').read_text()
    section = text.split(f'### {heading}\n')[1].split('\n#')[0]
    cells = [line.split('|')[-2] for line in section.splitlines() if line.startswith('| ')]
    assert len(cells) > 20, f'{heading}: {len(cells)} rows'
    return cells


def scripts_missing(names):
    """Of a row's scripts; one without a folder is in that of the one before."""
    folder = ''
    for name in names:
        folder, name = name.split('/') if '/' in name else (folder, name)
        if not list((SCRIPTS / folder).glob(f'{name or "*"}.pkt')):
            yield f'{folder}/{name}'


@case
def every_script_of_the_other_rfcs_is_there():
    for cell in shown_in('The other RFCs, and the scripts that show them'):
        missing = list(scripts_missing(re.findall(r'`([a-z0-9_/*]+)`', cell)))
        assert not missing, f'{missing}: no such scripts'


@case
def every_test_of_the_senders_rules_is_there():
    for cell in shown_in("The sender's rules, and what tests them"):
        room = None
        for name in re.findall(r'`([^`]+)`', cell):
            room, name = name.split(': ') if ': ' in name else (room, name)
            source = (ROOT / f'tests/tcp/test_{room}.c').read_text()
            is_run = name == '*' or f'cmocka_unit_test({name})' in source
            assert is_run, f'{room}: {name} is not run'
        scripts = re.findall(r'(?<![a-z0-9])_([a-z0-9/_*]+)_(?![a-z0-9])',
                             re.sub('`[^`]+`', '', cell))
        missing = list(scripts_missing(scripts))
        assert not missing, f'{missing}: no such scripts'


if __name__ == '__main__':
    main()
