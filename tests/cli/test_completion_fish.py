#!/usr/bin/env python3
"""The fish completion, as fish itself offers it."""

import os
import pathlib
import shutil
import subprocess

from cases import SOURCE, WEFT, case, main, scratch, skip_all
from completions import cases_of_each_shell, commands_of_the_help


def complete(line, folder='/'):
    """What is offered for the last word of `weft LINE`, without what is said of it."""
    script = 'source $argv[1]; complete -C "$argv[2]"'
    with scratch() as home:
        result = subprocess.run(['fish', '--no-config', '-c', script,
                                 SOURCE / 'cli/completion.fish', f'{WEFT} {line}'], text=True,
                                capture_output=True, cwd=folder, timeout=60,
                                env={**os.environ, 'HOME': home})
    assert result.stderr == '', result.stderr
    return {line.split('\t')[0] for line in result.stdout.splitlines()}


@case
def commands_are_those_of_the_help():
    commands = commands_of_the_help()
    assert complete('') == commands and 'serve' in commands
    assert complete('help e') == {'env', 'environment'}


@case
def values_of_options():
    assert {'--crc=on', '--crc=off'} <= complete('run --crc=')
    assert '--wire=roce' in complete('env --wire=r')
    assert '--memory=short' in complete('reads --memory=s')
    assert '--rta=host' in complete('serve --rta=')


@case
def the_program_is_a_command_and_the_rest_is_its_own():
    assert 'printf' in complete('run print')
    with scratch() as folder:
        pathlib.Path(folder, 'data').touch()
        assert complete('run cat da', folder) == {'data'}


if not shutil.which('fish'):
    skip_all('no fish here')
cases_of_each_shell(complete)
main()
