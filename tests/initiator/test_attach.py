#!/usr/bin/env python3
"""weft attach, judged by the distribution's NBD clients, at a target of the tests' own."""

import json
import pathlib
import random
import shutil

from serving import SIZE, Skip, case, main, scratch, target, uri, weft


def need(*programs):
    """Skips the case where a program is missing."""
    for program in programs:
        if not shutil.which(program):
            raise Skip(f'no program {program}')


def attach(command, port, *words, status=0, behind=''):
    """Runs a shell command with a volume attached; gives its standard output."""
    with scratch() as folder:
        said = weft('attach', '--quiet', f'--socket={folder}/socket', f'--run={command}', *words,
                    uri(port) + behind)
    assert said.returncode == status, f'status {said.returncode}\n{said.stdout}{said.stderr}'
    return said.stdout


def data(folder, length=SIZE):
    path = pathlib.Path(folder, 'data')
    path.write_bytes(random.Random(length).randbytes(length))
    return path


@case
def nbdinfo_sees_what_the_volume_can():
    need('nbdinfo')
    with target() as port:
        export = json.loads(attach('nbdinfo --json "$uri"', port))['exports'][0]
    wanted = {'export-size': SIZE, 'is_read_only': False, 'can_flush': True, 'can_fua': True,
              'can_trim': True, 'can_zero': True}
    found = {key: export.get(key) for key in wanted}
    assert found == wanted, export


@case
def nbdcopy_brings_back_what_it_took():
    need('nbdcopy')
    with target() as port, scratch() as folder:
        there = data(folder)
        attach(f'nbdcopy {there} "$uri" && nbdcopy "$uri" {folder}/back', port)
        assert pathlib.Path(folder, 'back').read_bytes() == there.read_bytes()


@case
def qemu_writes_zeroes_and_discards():
    need('qemu-io')
    with target() as port:
        attach('qemu-io -f raw -c "write -P 7 0 128k" -c "read -P 7 4096 8192" '
               '-c "write -z 4k 64k" -c "write -z -u 1M 64k" -c "discard 2M 1M" '
               '-c "write -f -P 9 3M 512" -c flush -c "read -P 0 8k 4k" -c "read -P 9 3M 512" '
               '"$uri" >&2', port)


@case
def qemu_img_converts_both_ways():
    need('qemu-img')
    with target() as port, scratch() as folder:
        there = data(folder)
        attach(f'qemu-img convert -n -f raw -O raw {there} "$uri" && '
               f'qemu-img compare -f raw -F raw {there} "$uri" >&2 && '
               f'qemu-img convert -f raw -O qcow2 "$uri" {folder}/copy && '
               f'qemu-img compare -f raw -F qcow2 {there} {folder}/copy >&2', port)


@case
def fio_verifies_what_it_wrote():
    need('fio')
    with target() as port:
        attach('fio --name=judge --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k-64k '
               '--iodepth=16 --size=8M --io_size=16M --verify=crc32c --verify_fatal=1 '
               '--verify_state_save=0 --randrepeat=0 --minimal >&2', port)


@case
def a_read_only_attachment_refuses_writes():
    need('nbdinfo', 'qemu-io')
    with target() as port:
        attach('nbdinfo --is read-only "$uri"', port, '--read-only')
        attach('! qemu-io -f raw -c "write 0 4k" "$uri" 2>/dev/null', port, '--read-only')


@case
def a_lost_connection_is_made_again():
    need('nbdcopy')
    with target('drops') as port, scratch() as folder:
        there = data(folder)
        attach(f'nbdcopy {there} "$uri" && nbdcopy "$uri" {folder}/back', port)
        assert pathlib.Path(folder, 'back').read_bytes() == there.read_bytes()


@case
def a_target_that_is_gone_cannot_be_attached():
    with target() as port:
        pass
    said = weft('attach', '--quiet', '--run=true', uri(port))
    assert said.returncode == 1 and 'cannot serve: nvme' in said.stderr, said.stderr


@case
def requests_fail_when_patience_is_over():
    need('qemu-io')
    with target() as port:
        attach(f'kill -9 {target.process.pid}; ! qemu-io -f raw -c "read 0 4k" "$uri" >&2', port,
               behind='?patience=100ms')


@case
def a_volume_that_is_full_says_so():
    need('qemu-io')
    with target('full') as port:
        attach('qemu-io -f raw -c "write 0 4k" "$uri" 2>&1 | grep -i "no space"', port)


main()
