#!/usr/bin/env python3
"""The zsh completion, as zsh itself offers it on a terminal (capture.zsh)."""

import os
import pathlib
import shutil
import socket
import subprocess

from cases import SOURCE, WEFT, case, main, scratch, settings, skip_all, weft

CAPTURE = SOURCE / 'tests/cli/capture.zsh'


def complete(line, folder='/'):
    """What is offered for the last word of `weft LINE`."""
    with scratch() as functions:
        pathlib.Path(functions, '_weft').symlink_to(SOURCE / 'cli/completion.zsh')
        result = subprocess.run(['zsh', '-f', CAPTURE, functions, folder, f'{WEFT} {line}'],
                                text=True, capture_output=True, timeout=60,
                                stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@case
def commands_are_those_of_the_help():
    said = weft('help').stdout.split('Commands:\n')[1].split('\n\n')[0]
    commands = {line.split()[0] for line in said.splitlines()}
    assert complete('') == commands | {'--help', '--version'} and 'serve' in commands
    assert complete('help e') == {'env', 'environment'}


@case
def options_of_run_are_those_of_its_help():
    offered = complete('run --')
    for _, option, _, _ in settings():
        assert f'--{option}=' in offered, f'{option} is not in {offered}'
    assert {'--quiet', '--view='} <= offered, offered


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


if not shutil.which('zsh'):
    skip_all('no zsh here')
main()
