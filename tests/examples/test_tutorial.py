#!/usr/bin/env python3
"""docs/tutorial.md: its commands print what it shows, its excerpts are those of the programs."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import SOURCE, WEFT, Skip, case, main, scratch, skip_all, tapnet  # noqa: E402

PAGE = (SOURCE / 'docs/tutorial.md').read_text()
PROGRAMS = SOURCE / 'examples/tutorial'
KEY = re.compile(r'0x[0-9a-f]{8}')  # another one in each run
# weft's own word on the end of a connection, which a program that ends first does not wait for.
FAREWELL = re.compile(r"^weft: QP \d+, peer 127\.0\.0\.1:\d+: .* ended the connection: (.*)$")
AWAIT = 'until grep -q ":1D2F .* 0A " /proc/net/tcp; do sleep 0.02; done\n'
LIMIT_S = 30


def chapters():
    """(title, body) of each."""
    parts = re.split(r'^## ', PAGE, flags=re.M)
    return [tuple(part.split('\n', 1)) for part in parts[1:] if part[0].isdigit()]


def blocks(text, language):
    return re.findall(rf'^```{language}\n(.*?)^```$', text, re.M | re.S)


def commands(block):
    """(command, the lines that it prints) of each."""
    for part in re.split(r'^\$ ', block, flags=re.M)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def masked(lines):
    return [KEY.sub('0x…', line) for line in lines]


def environment(folder):
    kept = {name: value for name, value in os.environ.items() if not name.startswith('WEFT_')}
    return {**kept, 'PATH': f'{folder}/bin:/usr/bin:{kept["PATH"]}',
            'WEFT_RUNTIME_DIR': f'{folder}/run'}


def start(command, folder, env):
    return subprocess.Popen(['sh', '-c', command], cwd=f'{folder}/tutorial', env=env, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def compare(command, process, shown):
    """Both outputs together are what the page shows, each in its order."""
    said, errors = (masked(text.splitlines()) for text in process.communicate(timeout=LIMIT_S))
    shown = masked(shown)
    for farewell in filter(None, map(FAREWELL.match, errors)):
        assert farewell.group(1) in PAGE, farewell.group()
    errors = [line for line in errors if not FAREWELL.match(line)]
    assert [line for line in shown if line not in errors] == said, (command, shown, said, errors)
    assert [line for line in shown if line in errors] == errors, (command, shown, said, errors)


def play(body, folder):
    """The chapter's commands, in the order of the page; one that ends with & stays, until the
    next one has ended."""
    env = environment(folder)
    servers = []
    for command, shown in (one for block in blocks(body, 'console') for one in commands(block)):
        if command.endswith('&'):
            process = start(f'exec {command.rstrip("& ")}', folder, env)
            servers.append((command, process, shown))
            subprocess.run(['sh', '-c', AWAIT], check=True, timeout=LIMIT_S)
            continue
        compare(command, start(command, folder, env), shown)
        for server in servers:
            compare(*server)
        servers.clear()


def tutorial():
    """A copy of the programs, built as the page says."""
    place = scratch()
    shutil.copytree(PROGRAMS, f'{place.name}/tutorial')
    os.mkdir(f'{place.name}/run', 0o700)
    os.mkdir(f'{place.name}/bin')
    os.symlink(WEFT, f'{place.name}/bin/weft')
    play(PAGE.split('\n## ', 1)[0], place.name)
    return place


def chapter(title, body, place):
    def as_shown():
        if 'python3' in body and subprocess.run(['/usr/bin/python3', '-c', 'import pyverbs'],
                                                stderr=subprocess.DEVNULL).returncode:
            raise Skip('no python3-pyverbs')
        play(body, place.name)
    as_shown.__name__ = f'chapter_{re.sub(r"[^0-9a-z]+", "_", title.lower()).strip("_")}'
    return as_shown


@case
def excerpts_are_those_of_the_programs():
    for title, body in chapters():
        name = re.search(r'\((?:\.\./examples/tutorial/)(\w+\.\w+)\)', body).group(1)
        source = (PROGRAMS / name).read_text()
        for excerpt in blocks(body, 'c'):
            indent = re.search(r'^ *(?=' + re.escape(excerpt.splitlines()[0]) + ')', source, re.M)
            assert indent, (title, excerpt)
            assert textwrap.indent(excerpt, indent.group()) in source, (title, excerpt)


@case
def programs_are_short_and_each_has_a_chapter():
    names = {path.name for path in PROGRAMS.glob('*.[cp]*')}
    assert len(names) == len(chapters()) == 6, names
    for name in names:
        assert f'(../examples/tutorial/{name})' in PAGE, name
        assert len((PROGRAMS / name).read_text().splitlines()) <= 100, name


@case
def programs_know_nothing_of_weft():
    for path in PROGRAMS.glob('*.[cp]*'):
        assert 'weft' not in path.read_text(), path


try:
    tapnet.enter_namespace('ip', 'link', 'set', 'lo', 'up')
except tapnet.NotHere as why:
    skip_all(str(why))
tapnet.ip('link', 'set', 'lo', 'up')
PLACE = tutorial()
for heading, text in chapters():
    case(chapter(heading, text, PLACE))
main()
