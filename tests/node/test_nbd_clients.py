#!/usr/bin/env python3
"""The NBD TTS judged by the distribution's clients: libnbd, qemu and fio."""

import json

from serving import captive, case, count, folder, main, need, pathlib

VOLUMES = {'ram': 'ram:64M', 'null': 'null:64M'}


def file_volume(place, size=16 << 20):
    path = pathlib.Path(place, 'disk.img')
    with path.open('wb') as file:
        file.truncate(size)
    return path


@case
def nbdinfo_sees_what_the_volume_can():
    need('nbdinfo')
    with folder() as place:
        said = json.loads(captive('nbdinfo --json "$uri"', file_volume(place)))
    export = said['exports'][0]
    assert export['export-size'] == 16 << 20, export
    wanted = {'is_read_only': False, 'can_flush': True, 'can_fua': True, 'can_multi_conn': True,
              'can_zero': True, 'can_df': True}
    found = {key: export[key] for key in wanted}
    assert found == wanted, found
    assert 'base:allocation' in export['contexts'], export


@case
def nbdinfo_lists_every_volume():
    need('nbdinfo')
    command = 'nbdinfo --list --json "${uri%/ram*}?${uri#*[?]}"'
    said = json.loads(captive(command, *VOLUMES.values()))
    assert [export['export-name'] for export in said['exports']] == list(VOLUMES), said


@case
def a_volume_that_is_not_there_is_refused():
    need('nbdinfo')
    captive('nbdinfo "nbd+unix:///nothing?${uri#*[?]}" 2>/dev/null', 'ram:1M', status=1)


@case
def nbdcopy_brings_back_what_it_took():
    need('nbdcopy')
    for rta in ('each', 'host'):
        with folder() as place:
            data = pathlib.Path(place, 'data')
            data.write_bytes(bytes(range(256)) * (count(8, 256) << 12))
            volume = file_volume(place, data.stat().st_size)
            captive(f'nbdcopy {data} "$uri" && nbdcopy "$uri" {place}/back', f'--rta={rta}', volume)
            assert pathlib.Path(place, 'back').read_bytes() == data.read_bytes(), rta
            assert volume.read_bytes() == data.read_bytes(), rta


@case
def nbdcopy_leaves_holes_holes():
    need('nbdcopy', 'nbdinfo')
    with folder() as place:
        volume = file_volume(place)
        with volume.open('r+b') as file:
            file.seek(4 << 20)
            file.write(b'x' * (1 << 20))
        said = json.loads(captive('nbdinfo --map --json "$uri"', volume))
    data = [(extent['offset'], extent['length']) for extent in said if extent['type'] == 0]
    if volume_has_holes(said):
        assert data == [(4 << 20, 1 << 20)], said


def volume_has_holes(extents):
    return len(extents) > 1


@case
def qemu_io_writes_zeroes_and_discards():
    need('qemu-io')
    for volume in ('ram:4M', 'null:4M'):
        reads = '' if volume.startswith('null') else '-c "read -P 7 1000 3000"'
        captive('qemu-io -f raw -c "write -P 7 0 128k" ' + reads + ' -c "write -z 4k 64k" '
                '-c "write -z -u 1M 64k" -c "discard 2M 1M" -c "write -f -P 9 3M 512" -c flush '
                '-c "read -P 0 8k 4k" "$uri" >&2', volume)


@case
def qemu_img_converts_both_ways():
    need('qemu-img')
    with folder() as place:
        data = pathlib.Path(place, 'data')
        data.write_bytes(b'weft' * (1 << 18) + bytes(1 << 20))
        volume = file_volume(place, data.stat().st_size)
        captive(f'qemu-img convert -n -f raw -O raw {data} "$uri" && '
                f'qemu-img compare -f raw -F raw {data} "$uri" >&2 && '
                f'qemu-img convert -f raw -O qcow2 "$uri" {place}/copy.qcow2 && '
                f'qemu-img compare -f raw -F qcow2 {data} {place}/copy.qcow2 >&2', volume)


@case
def fio_verifies_what_it_wrote():
    need('fio')
    with folder() as place:
        for volume in (file_volume(place), 'ram:16M'):
            captive('fio --name=judge --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k-64k '
                    f'--iodepth=16 --size=16M --io_size={count(16, 256)}M --verify=crc32c '
                    '--verify_fatal=1 --verify_state_save=0 --randrepeat=0 --minimal >&2', volume)


@case
def a_read_only_volume_refuses_writes():
    need('qemu-io', 'nbdinfo')
    captive('nbdinfo --is read-only "$uri" && ! nbdinfo --can zero "$uri"', '--read-only', 'ram:1M')
    captive('! qemu-io -f raw -c "write 0 4k" "$uri" 2>/dev/null', '--read-only', 'ram:1M')


main()
