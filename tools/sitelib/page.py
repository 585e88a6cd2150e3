"""What stands around the body of a page, and the index that the search reads."""

import html as markup
import json
import re

from sitelib import render, tree

_PAGE = '''<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<a class="skip" href="#content">to the text</a>
<nav aria-label="Pages">
<p class="name"><a href="index.html">weft</a></p>
<input id="query" type="search" placeholder="Search ( / )" aria-label="Search all pages">
<div id="found" aria-live="polite"></div>
<div id="pages">
{navigation}</div>
</nav>
<main id="content">
{body}</main>
<script src="search-index.js"></script>
<script src="search.js"></script>
</body>
</html>
'''
_SECTION = re.compile(r'<h[1-3]\b[^>]*\bid="([^"]*)"[^>]*>(.*?)</h[1-3]>', re.S)


def _title_of(site, source):
    """As the navigation has it: the first line of a page, or the page's name of the manual."""
    if source.startswith('man/'):
        return source.removeprefix('man/')
    return (site.root / source).read_text().split('\n', 1)[0].removeprefix('# ')


def _navigation(one, site):
    lines = []
    for title, sources in [*site.groups(), (tree.MANUALS, site.manuals())]:
        is_open = ' open' if title == one.group else ''
        lines.append(f'<details{is_open}><summary>{title}</summary><ul>\n')
        for source in sources:
            here = ' aria-current="page"' if source == one.source else ''
            words = markup.escape(_title_of(site, source))
            lines.append(f'<li><a href="{site.name(source)}"{here}>{words}</a></li>\n')
        lines.append('</ul></details>\n')
    return ''.join(lines)


def html(one, site):
    title = one.title if one.title == 'weft' else f'{one.title} – weft'
    return _PAGE.format(title=markup.escape(title), navigation=_navigation(one, site),
                        body=one.body)


def _sections(one):
    """(anchor, title, text) from each heading to the next."""
    parts = _SECTION.split(one.body)
    yield '', one.title, render.plain(parts[0])
    for anchor, title, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        yield anchor, render.plain(title), render.plain(text)


def index(pages):
    """The sections of all pages, as a script: a page from a file may load nothing else."""
    rows = [[one.name, one.title, *section] for one in pages for section in _sections(one)
            if one.group != tree.LISTINGS and any(section[1:])]
    return 'const SECTIONS = ' + json.dumps(rows, ensure_ascii=False, indent=0) + ';\n'
