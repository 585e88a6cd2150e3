#!/usr/bin/env python3
"""The fish completion, as fish itself offers it."""

import os
import pathlib
import shutil
import socket
import subprocess

from cases import SOURCE, WEFT, case, main, scratch, settings, skip_all, weft


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
    said = weft('help').stdout.split('Commands:\n')[1].split('\n\n')[0]
    commands = {line.split()[0] for line in said.splitlines()}
    assert complete('') == commands and 'serve' in commands
    assert complete('help e') == {'env', 'environment'}


@case
def options_of_run_are_those_of_its_help():
    offered = complete('run --')
    for _, option, _, _ in settings():
        assert f'--{option}=' in offered, f'{option} is not in {offered}'
    assert {'--quiet', '--view='} <= offered, offered


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


@case
def files_and_volumes():
    with scratch() as folder:
        pathlib.Path(folder, 'disk.img').touch()
        assert complete('serve di', folder) == {'disk.img'}
        assert complete('cp di', folder) == {'disk.img'}
    assert complete('serve ra') == {'ram:'}
    assert complete('info nv') == {'nvme+rdma://'}


@case
def stat_offers_processes():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f'\0weft.{os.getuid()}.{os.getpid()}')
        listener.listen()
        assert str(os.getpid()) in complete('stat ')


if not shutil.which('fish'):
    skip_all('no fish here')
main()
