"""Sources as HTML: Markdown by cmark-gfm, man pages by mandoc, other files as they are."""

import dataclasses
import html
import re
import subprocess

from sitelib import tree

_TAG = re.compile(r'(<[^>]+>)')
_HEADING = re.compile(r'<h([1-6])>(.*?)</h\1>', re.S)
_LINK = re.compile(r'(<(?:a|img)\b[^>]*?\b(?:href|src)=")([^"]*)(")')
_MANUAL = re.compile(r'\b(weft[\w-]*)\((\d)\)')


@dataclasses.dataclass
class Page:
    source: str
    name: str
    title: str
    group: str
    body: str


def _run(*words, text=None, folder=None):
    return subprocess.run(words, input=text, cwd=folder, text=True, capture_output=True,
                          check=True).stdout


def plain(markup):
    return ' '.join(html.unescape(_TAG.sub(' ', markup)).split())


def slug(heading):
    """The anchor of a heading, as GitHub makes it: pages are read there too."""
    words = re.sub(r'[^\w\- ]', '', html.unescape(_TAG.sub('', heading)).strip().lower())
    return words.replace(' ', '-')


def _headings(body):
    """Each heading with an anchor of its own."""
    seen = {}

    def anchored(match):
        level, text = match.groups()
        name = slug(text)
        count = seen[name] = seen.get(name, -1) + 1
        name += f'-{count}' if count else ''
        return f'<h{level} id="{name}"><a class="anchor" href="#{name}">{text}</a></h{level}>'
    return _HEADING.sub(anchored, body)


def _manual_links(body, site):
    """weft-stat(1) leads to its page, where it does not stand in a link already."""
    parts, depth = _TAG.split(body), 0
    for i, part in enumerate(parts):
        if part.startswith('<'):
            depth += part.startswith('<a ') - part.startswith('</a')
        elif depth == 0:
            parts[i] = _MANUAL.sub(lambda match: _manual_link(match, site), part)
    return ''.join(parts)


def _manual_link(match, site):
    name = site.manual_name(*match.groups())
    return f'<a href="{name}">{match.group()}</a>' if name else match.group()


def markdown(site, source):
    text = (site.root / source).read_text()
    body = _run('cmark-gfm', '--to', 'html', '--extension', 'table', text=text)
    title = plain(re.search(r'<h1>(.*?)</h1>', body, re.S).group(1))
    body = _LINK.sub(lambda match: match.group(1) + html.escape(
        site.target(source, html.unescape(match.group(2)))) + match.group(3), body)
    body = _manual_links(_headings(body), site)
    body = body.replace('<table>', '<div class="wide"><table>').replace('</table>',
                                                                      '</table></div>')
    group = next(title for title, sources in site.groups() if source in sources)
    return Page(source, site.name(source), title, group, body)


def manual(site, source):
    body = _run('mandoc', '-T', 'html', '-O', 'fragment,man=%N.%S.html', str(site.root / source))
    body = re.sub(r'<table class="(?:head|foot)">.*?</table>', '', body, flags=re.S)
    # Of other packages' pages there are none here.
    body = re.sub(r'<a class="Xr" href="([^"]*)\.(\d)\.html">(.*?)</a>',
                  lambda match: _cross_reference(match, site), body, flags=re.S)
    title = re.sub(r'man/(.*)\.(\d)$', r'\1(\2)', source)
    return Page(source, site.name(source), title, tree.MANUALS, f'<h1>{title}</h1>\n{body}')


def _cross_reference(match, site):
    name = site.manual_name(match.group(1), match.group(2))
    return f'<a class="Xr" href="{name}">{match.group(3)}</a>' if name else match.group(3)


def listing(site, source):
    text = html.escape((site.root / source).read_text())
    return Page(source, site.name(source), source, tree.LISTINGS,
                f'<h1>{html.escape(source)}</h1>\n<pre><code>{text}</code></pre>\n')
