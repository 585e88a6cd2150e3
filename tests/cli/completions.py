"""What the completion of every shell offers: cases that take the shell's own `complete`."""

import os
import pathlib
import socket

from cases import case, scratch, settings, weft


def commands_of_the_help():
    said = weft('help').stdout.split('Commands:\n')[1].split('\n\n')[0]
    return {line.split()[0] for line in said.splitlines()}


def cases_of_each_shell(complete):
    """`complete(line, folder)`: the set of what is offered for the last word of `weft LINE`."""

    @case
    def options_of_run_are_those_of_its_help():
        offered = complete('run --')
        for _, option, _, _ in settings():
            assert f'--{option}=' in offered, f'{option} is not in {offered}'
        assert {'--quiet', '--view='} <= offered, offered

    @case
    def files_and_volumes():
        with scratch() as folder:
            pathlib.Path(folder, 'disk.img').touch()
            assert complete('serve di', folder) == {'disk.img'}
            assert complete('cp di', folder) == {'disk.img'}
        assert complete('serve ra') == {'ram:'}
        assert complete('info nv') == {'nvme+rdma://', 'nvme+tcp://'}
        assert complete('attach n') == {'nvme+rdma://', 'nvme+tcp://'}

    @case
    def stat_offers_processes():
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f'\0weft.{os.getuid()}.{os.getpid()}')
            listener.listen()
            assert str(os.getpid()) in complete('stat ')
