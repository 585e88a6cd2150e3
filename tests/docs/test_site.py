#!/usr/bin/env python3
"""`make html`: the site as a browser takes it from files: every link leads to something in it,
nothing comes from elsewhere, every page is there, and the search finds what a page says."""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import SOURCE, Skip, case, expect_error, main, scratch, skip_all, weft  # noqa: E402

TOOL = SOURCE / 'tools/site'
LIMIT_S = 60


class Reader(html.parser.HTMLParser):
    """What a page points to, and where it can be pointed to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.resources, self.ids = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.append(attrs.get('id'))
        if tag == 'a' and attrs.get('href'):
            self.links.append(attrs['href'])
        for name in ('src', 'data', 'srcset') + (('href',) if tag == 'link' else ()):
            if attrs.get(name):
                self.resources.append(attrs[name])


def site():
    for tool in ('cmark-gfm', 'mandoc'):
        if shutil.which(tool) is None:
            skip_all(f'no program {tool}')
    place = scratch()
    subprocess.run([TOOL, f'{place.name}/html'], check=True, timeout=LIMIT_S,
                   stdout=subprocess.DEVNULL)
    return place


PLACE = site()
FOLDER = pathlib.Path(PLACE.name) / 'html'
PAGES = {path.name: Reader(path.read_text()) for path in FOLDER.glob('*.html')}
SECTIONS = json.loads((FOLDER / 'search-index.js').read_text().split('=', 1)[1].rstrip(';\n'))


def leads_somewhere(page, link):
    if re.match(r'https?:', link):
        return True  # to be followed by who reads, not loaded
    name, _, anchor = link.partition('#')
    name = name or page
    if not (FOLDER / name).is_file():
        return False
    return not anchor or name not in PAGES or anchor in PAGES[name].ids


@case
def every_link_leads_somewhere():
    broken = [f'{page}: {link}' for page, reader in PAGES.items()
              for link in reader.links + reader.resources if not leads_somewhere(page, link)]
    assert not broken, broken[:10]


@case
def nothing_is_loaded_from_elsewhere():
    for page, reader in PAGES.items():
        for resource in reader.resources:
            assert not re.match(r'(?:[a-z]+:|//|/)', resource), f'{page}: {resource}'
    for path in FOLDER.glob('*.css'):
        assert not re.search(r'@import|url\(', path.read_text()), path.name
    assert not re.search(r'fetch|XMLHttpRequest|import\b', (FOLDER / 'search.js').read_text())


@case
def no_anchor_stands_twice_on_a_page():
    for page, reader in PAGES.items():
        ids = [name for name in reader.ids if name]
        assert len(ids) == len(set(ids)), (page, {name for name in ids if ids.count(name) > 1})


@case
def every_document_and_every_command_has_its_page():
    wanted = {f'{path.stem}.html' for path in SOURCE.glob('docs/*.md')}
    wanted |= {f'{path.name}.html' for path in SOURCE.glob('man/*.[1-9]')}
    assert wanted <= set(PAGES), wanted - set(PAGES)


@case
def every_page_leads_to_all_that_the_navigation_has():
    first = set(PAGES['index.html'].links)
    assert {'tutorial.html', 'weft-run.1.html', 'ARCHITECTURE.html'} <= first
    titles = {name: (FOLDER / name).read_text().split('<main', 1)[0].count('<li>')
              for name in PAGES}
    assert set(titles.values()) == {titles['index.html']}, titles


@case
def of_the_navigation_no_more_is_open_than_the_group_of_the_page():
    for name in PAGES:
        groups = (FOLDER / name).read_text().split('<main', 1)[0].split('<details')[1:]
        opened = [group for group in groups if group.startswith(' open')]
        here = [group for group in groups if 'aria-current="page"' in group]
        assert opened == here, f'{name}: {len(opened)} of {len(groups)}'


@case
def names_of_the_manual_are_links():
    assert 'weft-doctor.1.html' in PAGES['faq.html'].links
    assert 'weft-status.1.html' in PAGES['weft-stat.1.html'].links


@case
def the_index_has_every_page_and_only_anchors_that_there_are():
    listed = {row[0] for row in SECTIONS}
    documents = {name for name in PAGES if not re.search(r'\.(?:c|h|py|json)\.html$|LICENSE', name)}
    assert listed >= documents, documents - listed
    for name, _, anchor, _, _ in SECTIONS:
        assert not anchor or anchor in PAGES[name].ids, (name, anchor)


def search(*queries):
    """The pages that the site's own script finds for each."""
    if shutil.which('node') is None:
        raise Skip('no program node')
    script = ''.join((FOLDER / name).read_text() for name in ('search-index.js', 'search.js'))
    script += f'''
    for (const query of {json.dumps(queries)}) {{
        console.log(JSON.stringify(search(SECTIONS, query)));
    }}'''
    said = subprocess.run(['node', '-'], input=script, text=True, capture_output=True,
                          timeout=LIMIT_S, check=True).stdout
    return [json.loads(line) for line in said.splitlines()]


@case
def the_search_finds_sections_that_have_all_words():
    found, none, empty, upper = search('wrong key', 'wrong zyzzyva', '  ', 'WEFT_PCAP')
    assert 'tutorial.html' in [row[0] for row in found], found
    assert all('wrong' in ' '.join(row[1:]).lower() for row in found)
    assert none == [] and empty == []
    assert 'weft.7.html' in [row[0] for row in upper]


@case
def the_search_puts_titles_first():
    (found,) = search('weft-doctor')
    assert found[0][0] == 'weft-doctor.1.html', found[:3]


@case
def a_link_to_nowhere_stops_it():
    with scratch() as place:
        tree = pathlib.Path(place)
        for folder in ('docs', 'man', 'tools'):
            shutil.copytree(SOURCE / folder, tree / folder)
        (tree / 'README.md').write_text('# weft\n\n[a page](docs/nobody.md)\n')
        expect_error(weft(tree / 'html', program=tree / 'tools/site'), 1,
                     'link to nowhere', 'README.md: docs/nobody.md')
        assert not (tree / 'html').exists()


main()
