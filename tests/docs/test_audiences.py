#!/usr/bin/env python3
"""The pages for those who come with a purpose (docs/for-*.md): short, and their commands run."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

import page_commands  # noqa: E402
from cases import SOURCE, case, main  # noqa: E402

PAGES = sorted(SOURCE.glob('docs/for-*.md'))
LINES_MAX = 70


@case
def pages_are_short_and_have_commands():
    assert len(PAGES) == 5, PAGES
    for page in PAGES:
        text = page.read_text()
        assert len(text.splitlines()) <= LINES_MAX, page.name
        assert list(page_commands.sections(text)), page.name


page_commands.enter_network()
for one in PAGES:
    for heading, lines in page_commands.sections(one.read_text()):
        case(page_commands.case_of(f'{one.stem} {heading}', lines))
main()
