#!/usr/bin/env python3
"""The zsh completion, as zsh itself offers it on a terminal (capture.zsh)."""

import os
import pathlib
import shutil
import subprocess

from cases import SOURCE, WEFT, case, main, scratch, skip_all
from completions import cases_of_each_shell, commands_of_the_help

CAPTURE = SOURCE / 'tests/cli/capture.zsh'
FUNCTIONS = scratch()
pathlib.Path(FUNCTIONS.name, '_weft').symlink_to(SOURCE / 'cli/completion.zsh')


def complete(line, folder='/'):
    """What is offered for the last word of `weft LINE`."""
    result = subprocess.run(['zsh', '-f', CAPTURE, FUNCTIONS.name, folder, f'{WEFT} {line}'],
                            text=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@case
def commands_are_those_of_the_help():
    commands = commands_of_the_help()
    assert complete('') == commands | {'--help', '--version'} and 'serve' in commands
    assert complete('help e') == {'env', 'environment'}


@case
def values_of_options():
    assert complete('run --crc=') == {'on', 'off'}
    assert complete('env --wire=r') == {'roce'}
    assert complete('reads --memory=s') == {'short'}
    assert complete('serve --rta=') == {'each', 'one', 'host'}


@case
def the_program_is_a_command_and_the_rest_is_its_own():
    assert 'printf' in complete('run --crc=off print')
    with scratch() as folder:
        pathlib.Path(folder, 'data').touch()
        assert complete('run cat da', folder) == {'data'}


if not shutil.which('zsh'):
    skip_all('no zsh here')
cases_of_each_shell(complete)
main()
