"""Which sources become which pages of the site, and where a link of one leads to."""

import os
import re

# The navigation: titles of groups, and their sources in the order of reading. Other pages of docs/
# follow under the last title, so that none is left out.
GROUPS = (
    ('Begin', ('README.md', 'docs/tutorial.md', 'docs/install.md', 'docs/faq.md',
               'docs/status.md')),
    ('For', ('docs/for-ci.md', 'docs/for-containers.md', 'docs/for-mpi-and-ucx.md',
             'docs/for-storage.md', 'docs/for-teaching.md')),
    ('Use', ('docs/ci.md', 'docs/kubernetes.md', 'docs/links.md', 'docs/one-host.md',
             'docs/watching.md', 'docs/pictures.md', 'docs/verbs.md')),
    ('On the wire', ('docs/iwarp.md', 'docs/roce.md', 'docs/roce-measured.md',
                     'docs/roce-programs.md', 'docs/tcp.md', 'docs/deviations.md')),
    ('On top', ('docs/rdma-manager.md', 'docs/one-shot.md', 'docs/preemptible-reads.md',
                'docs/hole-ledger.md')),
    ('Storage', ('docs/storage-node.md', 'docs/storage-measured.md', 'docs/ddm.md', 'docs/nvme.md',
                 'docs/nvme-rdma.md', 'docs/nvme-initiator.md', 'docs/iscsi.md', 'docs/ceph.md')),
    ('The house', ('ARCHITECTURE.md', 'HACKING.md', 'GLOSSARY.md', 'docs/testing.md',
                   'docs/mutants.md', 'docs/found.md', 'docs/segment-scripts.md', 'CHANGELOG.md')),
)
MANUALS = 'Manual'
LISTINGS = 'Sources'
PICTURES = ('.svg', '.png')
_ELSEWHERE = re.compile(r'[a-z][a-z0-9+.-]*:')


class Site:
    def __init__(self, root):
        self.root = root
        self.pictures = set()
        self.listings = set()
        self.broken = []  # 'page: link'

    def markdown(self):
        return [source for _, sources in self.groups() for source in sources]

    def manuals(self):
        return sorted(str(path.relative_to(self.root))
                      for path in (self.root / 'man').glob('*.[1-9]'))

    def groups(self):
        """(title, sources that there are) of the navigation, without the manual."""
        named = {source for _, sources in GROUPS for source in sources}
        others = sorted(str(path.relative_to(self.root)) for path in self.root.glob('docs/*.md'))
        others = [source for source in others if source not in named]
        for title, sources in GROUPS:
            there = [source for source in sources if (self.root / source).is_file()]
            there += others if title == GROUPS[-1][0] else []
            if there:
                yield title, there

    def name(self, source):
        """A source's page."""
        if source == 'README.md':
            return 'index.html'
        stem = source.removeprefix('docs/').removeprefix('man/')
        return stem.removesuffix('.md').replace('/', '-') + '.html'

    def manual_name(self, name, section):
        """The page of name(section); None: not weft's."""
        source = f'man/{name}.{section}'
        return self.name(source) if (self.root / source).is_file() else None

    def target(self, source, link):
        """What a link in a source becomes on its page; what leads nowhere is noted."""
        if _ELSEWHERE.match(link) or link.startswith('#'):
            return link
        path, _, anchor = link.partition('#')
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if not (self.root / path).is_file() or path.startswith('..'):
            self.broken.append(f'{source}: {link}')
            return link
        if path.endswith(PICTURES):
            self.pictures.add(path)
            return f'pictures/{os.path.basename(path)}'
        if not path.endswith('.md') and not path.startswith('man/'):
            self.listings.add(path)
        return self.name(path) + (f'#{anchor}' if anchor else '')
