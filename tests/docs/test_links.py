#!/usr/bin/env python3
"""Links between the tree's own pages lead somewhere: to a file that there is, and to a heading of
it; each picture is there, and each page of docs/ is reached from the README."""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import SOURCE, case, main  # noqa: E402

PAGES = sorted([*SOURCE.glob('*.md'), *SOURCE.glob('docs/*.md')])
LINK = re.compile(r'\]\(([^)\s]+)\)')
ELSEWHERE = re.compile(r'[a-z]+:')


def text_of(page):
    """Without what is shown as it stands, where brackets are no links."""
    text = re.sub(r'^```.*?^```$', '', page.read_text(), flags=re.M | re.S)
    text = re.sub(r'^    .*$', '', text, flags=re.M)
    return re.sub(r'`[^`]*`', lambda match: match.group().replace('](', '] ('), text)


def anchors(page):
    """Those that GitHub gives to the headings."""
    found = set()
    for heading in re.findall(r'^#{1,6} (.*)$', text_of(page), re.M):
        name = re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', '-')
        copies = sum(1 for other in found if re.fullmatch(re.escape(name) + r'(-\d+)?', other))
        found.add(f'{name}-{copies}' if copies else name)
    return found


def links():
    """(page, link, path, anchor) of each that leads into the tree."""
    for page in PAGES:
        for link in LINK.findall(text_of(page)):
            if not ELSEWHERE.match(link):
                path, _, anchor = link.partition('#')
                path = page if not path else pathlib.Path(os.path.normpath(page.parent / path))
                yield page, link, path, anchor


@case
def each_link_leads_to_a_file_of_the_tree():
    missing = [f'{page.name}: {link}' for page, link, path, _ in links()
               if not path.exists() or SOURCE not in path.parents]
    assert not missing, missing


@case
def each_anchor_is_a_heading():
    missing = [f'{page.name}: {link}' for page, link, path, anchor in links()
               if anchor and path.suffix == '.md' and anchor not in anchors(path)]
    assert not missing, missing


@case
def the_readme_leads_to_each_page():
    reached = {path for page, _, path, _ in links() if page == SOURCE / 'README.md'}
    missing = [page.name for page in PAGES
               if page not in reached and page != SOURCE / 'README.md']
    assert not missing, missing


@case
def each_picture_is_on_a_page():
    shown = {path for _, _, path, _ in links()}
    alone = [path.name for path in SOURCE.glob('docs/pictures/*') if path not in shown]
    assert not alone, alone


@case
def manual_pages_that_are_named_are_there():
    for page in PAGES:
        for name, section in re.findall(r'\b(weft[\w-]*)\((\d)\)', page.read_text()):
            assert (SOURCE / 'man' / f'{name}.{section}').is_file(), f'{page.name}: {name}'


main()
