#!/usr/bin/env python3
"""The bash completion, asked as bash asks it: words split at =, the last one to be completed."""

import os
import pathlib
import shutil
import socket
import subprocess

from cases import BUILD, SOURCE, case, main, scratch, settings, skip_all

ASK = '''
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_weft
printf '%s\\n' "${COMPREPLY[@]}"
'''


def complete(*words, folder='/'):
    result = subprocess.run(
        ['bash', '--norc', '-c', ASK, 'bash', SOURCE / 'cli/completion.bash', BUILD / 'weft',
         *words],
        text=True, capture_output=True, cwd=folder, timeout=60)
    assert result.stderr == '', result.stderr
    return set(result.stdout.split())


@case
def commands():
    all_commands = {'run', 'env', 'doctor', 'stat', 'top', 'watch', 'reads', 'draw', 'serve',
                    'status', 'rescan', 'discover', 'ls', 'info', 'cp', 'attach', 'help'}
    assert complete('') == all_commands | {'--help', '--version'}
    assert complete('s') == {'serve', 'stat', 'status'}
    assert complete('help', '') == all_commands | {'environment'}


@case
def options_of_run_are_those_of_its_help():
    offered = complete('run', '--')
    for _, option, _, _ in settings():
        assert f'--{option}=' in offered, f'{option} is not in {offered}'
    assert {'--quiet', '--set', '--link='} <= offered, offered


@case
def doctor_takes_options_of_its_own_and_those_of_run_and_then_a_program():
    offered = complete('doctor', '--')
    assert {'--json', '--quiet', '--wire=', '--set'} <= offered, offered
    assert complete('doctor', '--wire', '=', 'r') == {'roce'}
    assert 'printf' in complete('doctor', '--json', 'print')


@case
def values_of_options():
    assert complete('run', '--crc', '=') == {'on', 'off'}
    assert complete('run', '--crc', '=', 'of') == {'off'}
    assert complete('reads', '--memory', '=', 's') == {'short'}
    assert {'all', 'conn', 'qp'} <= complete('run', '--trace', '=')
    assert complete('run', '--link', '=', '') == {'socket', 'udp', 'tap:', 'tun:'}


@case
def files_for_options_that_name_one():
    with scratch() as folder:
        pathlib.Path(folder, 'capture.pcap').touch()
        assert complete('run', '--pcap', '=', 'cap', folder=folder) == {'capture.pcap'}


@case
def the_program_is_a_command_and_the_rest_is_its_own():
    assert 'printf' in complete('run', 'print')
    assert 'printf' in complete('run', '--crc', '=', 'off', '--quiet', 'print')
    assert 'printf' in complete('run', '--set', 'CRC', '=', 'off', 'print')
    with scratch() as folder:
        pathlib.Path(folder, 'data').touch()
        assert complete('run', 'printf', 'da', folder=folder) == {'data'}


@case
def serve_offers_files_and_drivers():
    with scratch() as folder:
        pathlib.Path(folder, 'disk.img').touch()
        assert complete('serve', 'di', folder=folder) == {'disk.img'}
        assert {'file:', 'ram:', 'null:'} <= complete('serve', '', folder=folder)
    assert {'--nbd=', '--run=', '--read-only'} <= complete('serve', '-')
    assert complete('serve', '--rta', '=') == {'each', 'one', 'host'}


@case
def cp_offers_files_and_volumes():
    with scratch() as folder:
        pathlib.Path(folder, 'disk.img').touch()
        assert complete('cp', 'di', folder=folder) == {'disk.img'}
    assert complete('cp', 'nv') == {'nvme+rdma://', 'nvme+tcp://'}
    assert complete('info', '') == {'nvme+rdma://', 'nvme+tcp://', 'iscsi+rdma://', 'iscsi://',
                                    'nbd://'}
    assert {'--verify', '--depth=', '--sparse'} <= complete('cp', '-')
    assert '--json' in complete('ls', '-')


@case
def stat_offers_processes():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f'\0weft.{os.getuid()}.{os.getpid()}')
        listener.listen()
        assert str(os.getpid()) in complete('stat', '')
    assert {'--json', '--watch='} <= complete('stat', '-')


if not shutil.which('bash'):
    skip_all('no bash')
main()
