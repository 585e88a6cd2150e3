"""What the scripts about the weft command share: cases as functions, and running weft.

        --wire WIRE    all programs on this wire (WEFT_WIRE), in a network of their own
        --only WORD    only the cases with this in their names
        --list         the names of the cases
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'judges'))

from judge import (BUILD, SOURCE, WEFT, Tap, free_port, nobody_may_run,  # noqa: E402,F401
                   skip_all)
import tapnet  # noqa: E402

_CASES = []
_WIRE = {}  # what programs are told of it


class Skip(Exception):
    """Raised by a case that cannot run here, with the reason."""


def case(function):
    """A case; its name is that of the function."""
    _CASES.append(function)
    return function


def named(function):
    return function.__name__.replace('_', ' '), function


def wire():
    """That of all programs here."""
    return _WIRE.get('WEFT_WIRE', 'iwarp')


def use_wire(name):
    """On RoCE the processes of a host share an address, so strangers there would take part."""
    try:
        tapnet.enter_namespace('ip', 'link', 'set', 'lo', 'up')
    except tapnet.NotHere as why:
        skip_all(str(why))
    tapnet.ip('link', 'set', 'lo', 'up')
    _WIRE['WEFT_WIRE'] = os.environ['WEFT_WIRE'] = name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--wire')
    parser.add_argument('--only', default='', metavar='WORD')
    parser.add_argument('--list', action='store_true')
    options = parser.parse_args()
    chosen = [(name, function) for name, function in map(named, _CASES) if options.only in name]
    if options.list:
        print('\n'.join(name for name, _ in chosen))
        return
    if not os.access(WEFT, os.X_OK):
        skip_all(f'{WEFT} is not built')
    if options.wire:
        use_wire(options.wire)
    tap = Tap()
    for name, function in chosen:
        try:
            function()
            tap.report(name, [])
        except Skip as reason:
            tap.skip(name, reason)
        except (AssertionError, subprocess.SubprocessError, OSError, ValueError) as fault:
            line = fault.__traceback__.tb_next.tb_lineno
            tap.report(name, [f'line {line}: {type(fault).__name__}', *str(fault).splitlines()])
    sys.exit(tap.finish())


def weft(*words, env=None, program=WEFT, limit=60, **options):
    """Runs weft; the environment without any WEFT_ variable but the wire, and with `env` on top."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith('WEFT_')}
    environment.update({**_WIRE, **(env or {})})
    return subprocess.run([str(program), *map(str, words)], env=environment, text=True,
                          timeout=limit, **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                                            'stderr': subprocess.PIPE, **options})


def expect(result, status, stdout='', *said):
    """The exit status, the whole of stdout (None: anything), and words on stderr."""
    assert result.returncode == status, f'status {result.returncode}, not {status}\n{result.stderr}'
    assert stdout is None or result.stdout == stdout, f'stdout: {result.stdout!r}'
    for words in said:
        assert words in result.stderr, f'stderr without {words!r}:\n{result.stderr}'


def expect_error(result, status, *said):
    """A refusal: nothing on stdout, and the four parts of an error on stderr."""
    expect(result, status, '', 'weft: ', '\n  why: ', '\n  do:  ', *said)


def scratch():
    """A folder that others may enter, removed with the object."""
    folder = tempfile.TemporaryDirectory(prefix='weft-cli.')
    os.chmod(folder.name, 0o755)
    return folder


def settings():
    """(variable, option, values, default) from `weft help environment`."""
    lines = weft('help', 'environment').stdout.splitlines()
    found = []
    for line, last in zip(lines, lines[2:]):
        if line.startswith('WEFT_'):
            variable, option = line.rstrip(')').split(' (--')
            values, default = last.strip().removeprefix('value: ').split('; default: ')
            found.append((variable, option, values, default))
    assert len(found) > 10, lines
    return found


__all__ = ['BUILD', 'SOURCE', 'WEFT', 'Skip', 'case', 'expect', 'expect_error', 'free_port', 'main',
           'scratch', 'settings', 'weft', 'wire']
