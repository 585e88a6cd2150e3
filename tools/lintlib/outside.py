"""format, history: what other programs know about the tree."""

import re
import shutil
import subprocess

from . import house


def _clang_format():
    """The path of clang-format in the version the layout was written for, or None."""
    for name in (f'clang-format-{house.CLANG_FORMAT_VERSION}', 'clang-format'):
        path = shutil.which(name)
        if not path:
            continue
        text = subprocess.run([path, '--version'], capture_output=True, text=True).stdout
        found = re.search(r'version (\d+)\.', text)
        if found and int(found.group(1)) == house.CLANG_FORMAT_VERSION:
            return path
    return None


def check_format(tree):
    program = _clang_format()
    if not program:
        tree.not_checked = (f'clang-format {house.CLANG_FORMAT_VERSION} is not here, and other '
                            'versions lay out differently')
        return
    names = [str(source.path) for source in tree.c_files]
    if not names:
        return
    result = subprocess.run([program, '--style=file', '--dry-run', '-Werror', *names],
                            cwd=tree.root, capture_output=True, text=True)
    seen = set()
    for path, line in re.findall(r'^(\S+?):(\d+):\d+: error:', result.stderr, flags=re.M):
        if path not in seen:
            seen.add(path)
            yield path, int(line), f'not as .clang-format lays it out: clang-format -i {path}'
    if result.returncode != 0 and not seen:
        yield '.clang-format', 1, result.stderr.strip().split('\n')[0]


def check_history(tree):
    if not (tree.root / '.git').exists() or not shutil.which('git'):
        tree.not_checked = 'this is not a git checkout'
        return
    result = subprocess.run(['git', '-c', 'safe.directory=*', 'log', '--no-merges',
                             '--format=%h %s'], cwd=tree.root, capture_output=True, text=True)
    if result.returncode != 0:
        tree.not_checked = result.stderr.strip().split('\n')[0]
        return
    prefixes = tuple(house.ROOMS) + house.SUBJECT_PREFIXES
    form = re.compile(rf'({"|".join(prefixes)})(, ?({"|".join(prefixes)}))*: \S')
    for line in result.stdout.splitlines():
        commit, _, subject = line.partition(' ')
        if not form.match(subject):
            yield f'commit {commit}', 0, (f'"{subject}": a subject is `room: what it does`, the '
                                          f'room one of {", ".join(prefixes)}')
