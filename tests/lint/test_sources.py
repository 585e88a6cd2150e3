#!/usr/bin/env python3
"""The tables from the source documents to code and tests name what there is.

Every table of docs/ whose last columns are `code`, `test` and `mutant` is read. What stands between
backticks in the first two is a file, a function or another name of the code, or a test's case: each
must be found, in the file that stands before the colon if one does; where all tests of a page are
in one folder, also if the test stands outside of the backticks. Of the claims none may be missing.
The mutants are docs/test_mechanisms.py's.

    test_sources.py
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The page, and how many claims its source has; 0: its rows have names of their own.
PAGES = {'preemptible-reads.md': 27, 'rdma-manager.md': 0, 'hole-ledger.md': 22, 'one-shot.md': 0,
         'storage-node.md': 0}
ROWS_MIN = {'preemptible-reads.md': 12, 'rdma-manager.md': 40, 'hole-ledger.md': 8,
            'one-shot.md': 24, 'storage-node.md': 60}
# Where names stand that a page has cut short.
TEST_FOLDERS = {'rdma-manager.md': 'tests/manager', 'storage-node.md': 'tests/node'}
CODE_FOLDERS = {'storage-node.md': 'node/'}

Row = collections.namedtuple('Row', 'claims code tests')


def tables(text):
    """Every row of the tables that lead from a source to code and tests. Claims stand in a column
    of that name, or are the numbers of the rows."""
    wanted, claims = False, 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]]
        if not line.startswith('|'):
            wanted = False
        elif cells[-3:] == ['code', 'test', 'mutant']:
            wanted, claims = True, cells.index('claims') if 'claims' in cells else 0
        elif wanted and not set(line) <= set('|-'):
            yield Row(cells[claims], cells[-3], cells[-2])


def numbers(claims):
    """'1, 13, 32-36' as numbers."""
    for first, last in re.findall(r'(\d+)(?:\s*[–-]\s*(\d+))?', claims):
        yield from range(int(first), int(last or first) + 1)


class Tree:
    """The files that git knows, or would take, and what is written in them."""

    def __init__(self, root, paths=None):
        if paths is None:
            listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=root,
                                    capture_output=True, text=True, check=True)
            paths = listed.stdout.split()
        self.texts = {}
        for path in paths:
            if re.search(r'\.([ch]|py|map)$', path) and (root / path).is_file():
                self.texts[path] = (root / path).read_text()
        self.names = {True: self.words(True), False: self.words(False)}

    def words(self, of_tests):
        text = '\n'.join(text for path, text in self.texts.items()
                         if path.startswith('tests/') == of_tests)
        return set(re.findall(r'\w+', text))

    def files(self, name, folder=''):
        """Those that a table may mean by this: a path, or a test by its name."""
        ends = (f'/test_{name}.c', f'/test_{name}.py', f'/{name}.c', f'/{name}.py', f'/{name}')
        return [path for path in self.texts
                if path == name or (path.startswith(folder or 'tests/')
                                    and path.endswith(ends))]

    def has_word(self, name, of_tests):
        if '…' not in name:
            return name in self.names[of_tests]
        pattern = re.compile(r'\w*'.join(map(re.escape, name.split('…'))) + '$')
        return any(pattern.match(word) for word in self.names[of_tests])


def name_faults(tree, name, of_tests, folder):
    """What is wrong with one name of a table."""
    name = re.sub(r' returns \w+$|\(\)$|^(struct|enum) ', '', name)
    if re.fullmatch(r'[\w./*-]+\.(c|h|py)|[\w-]+/[\w/-]*', name):
        path = re.compile(('' if of_tests else folder) + re.escape(name).replace(r'\*', r'\w*'))
        return [] if any(map(path.match, tree.texts)) else ['no such file']
    if of_tests and tree.files(name, folder):
        return []
    words = re.findall(r'[\w…]+', name)
    return [f'no {word} in {"tests" if of_tests else "the code"}' for word in words
            if not re.fullmatch(r'\d+', word) and not tree.has_word(word, of_tests)]


def place_faults(tree, place, name, of_tests, folder):
    """`place: name`: the name has to stand in that file."""
    paths = tree.files(place, folder)
    if not paths:
        return name_faults(tree, place, of_tests, folder) + name_faults(tree, name, of_tests,
                                                                        folder)
    text = '\n'.join(tree.texts[path] for path in paths)
    found = re.search(r'\w*'.join(map(re.escape, name.split('…'))), text)
    return [] if found else [f'{name} is not in {paths[0]}']


def cell_faults(tree, cell, of_tests, folder):
    for part in cell.split('; '):
        program = re.match(r'\w+(?=: )', part) if of_tests and folder else None
        for quoted in re.findall(r'`([^`]+)`', part):
            place, _, name = quoted.partition(': ')
            if program and not name:
                place, name = program[0], quoted
            faults = (place_faults(tree, place, name, of_tests, folder) if name
                      else name_faults(tree, place, of_tests, folder))
            yield from (f'`{quoted}`: {fault}' for fault in faults)


def page_faults(tree, text, claim_count=0, rows_min=0, folder='', code_folder=''):
    rows = list(tables(text))
    seen = set()
    if len(rows) < rows_min:
        yield f'{len(rows)} rows lead from the source to the code, {rows_min} are wanted'
    for row in rows:
        seen.update(numbers(row.claims))
        if '`' not in row.tests and not re.search(r'\b(all|same|[A-Z]\b|large)', row.tests):
            yield f'{row.claims}: no test'
        for fault in cell_faults(tree, row.code, False, code_folder):
            yield f'{row.claims}: {fault}'
        for fault in cell_faults(tree, row.tests, True, folder):
            yield f'{row.claims}: {fault}'
    for claim in range(1, claim_count + 1):
        if claim not in seen:
            yield f'claim {claim} is in no row'


# --- the check itself --------------------------------------------------------------------------

SMALL = '''
| claims | what | code | test | mutant |
|---|---|---|---|---|
| 1–3 | so | `wq/read_task.c: read_task_next`, `struct read_task` | `test_read_task: {case}` | – |
'''
FOLDER = 'tests/wq'
GOOD = SMALL.format(case='a_read_is_cut_to_the_allotment')
BROKEN = {
    'a case that there is not': (SMALL.format(case='a_read_is_cut_to_nothing'), 3),
    'a file that there is not': (GOOD.replace('wq/read_task.c:', 'wq/read_tusk.c:'), 3),
    'a function that there is not': (GOOD.replace('task_next', 'task_nixt'), 3),
    'a claim without a row': (GOOD, 4),
    'a claim without a row, but a row of its number': (
        GOOD.replace('| claims', '| # | claims').replace('| 1–3', '| 4 | 1–3'), 4),
    'a case of another test': (
        re.sub(r'`test_\S+ (\S+)`', r'read_sched: `\1`', GOOD), 3),
    'a row without a test': (re.sub(r'`test_\S+ \S+`', 'not yet', GOOD), 3),
}


def check_faults(tree):
    """It passes what is right, and fails what is wrong."""
    yield from (f'the good table: {fault}'
                for fault in page_faults(tree, GOOD, 3, folder=FOLDER))
    for what, (text, claims) in BROKEN.items():
        if not list(page_faults(tree, text, claims, folder=FOLDER)):
            yield f'{what}: not noticed'


def main():
    tree = Tree(ROOT)
    cases = [('what is wrong is noticed', list(check_faults(tree)))]
    for page, claims in PAGES.items():
        text = (ROOT / 'docs' / page).read_text()
        cases.append((page, list(page_faults(tree, text, claims, ROWS_MIN[page],
                                             TEST_FOLDERS.get(page, ''),
                                             CODE_FOLDERS.get(page, '')))))
    print(f'1..{len(cases)}')
    for number, (name, faults) in enumerate(cases, 1):
        print(f'{"not ok" if faults else "ok"} {number} - {name}')
        for fault in faults:
            print(f'# {fault}')
    sys.exit(any(faults for _, faults in cases))


if __name__ == '__main__':
    main()
