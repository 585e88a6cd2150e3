#!/usr/bin/env python3
"""The NBD TTS judged by the distribution's clients: libnbd, qemu and fio."""

import json

import clients
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
    size = count(8, 256) << 20
    for rta in ('each', 'host'):
        with folder() as place:
            volume = file_volume(place, size)
            clients.nbdcopy_round_trip(place, volume, size, f'--rta={rta}')
            assert volume.read_bytes() == pathlib.Path(place, 'data').read_bytes(), rta


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
    for volume in ('ram:4M', 'null:4M'):
        clients.qemu_io_writes_zeroes_and_discards(volume, keeps_data=volume != 'null:4M')


@case
def qemu_img_converts_both_ways():
    with folder() as place:
        clients.qemu_img_round_trip(place, file_volume(place, 2 << 20), 2 << 20)


@case
def fio_verifies_requests_of_64_mib():
    """What libnbd takes at most; more than a buffer of the node's holds."""
    need('fio')
    words = clients.fio_words('64M', '128M')
    words[words.index('--iodepth=16')] = '--iodepth=2'
    captive(' '.join(words) + ' --uri="$uri" >&2', 'ram:128M')


@case
def fio_verifies_what_it_wrote():
    with folder() as place:
        for volume in (file_volume(place), 'ram:16M'):
            clients.fio_verifies(volume)


@case
def clients_may_flush_what_has_no_cache():
    """libnbd refuses a flush to its programs where the server does not offer it."""
    need('nbdcopy', 'nbdinfo')
    with folder() as place:
        said = captive(f'nbdcopy --flush {file_volume(place)} "$uri" && nbdinfo --json "$uri"',
                       'ram:16M')
    assert json.loads(said)['exports'][0]['can_flush'], said


@case
def a_read_only_volume_refuses_writes():
    need('qemu-io', 'nbdinfo')
    captive('nbdinfo --is read-only "$uri" && ! nbdinfo --can zero "$uri"', '--read-only', 'ram:1M')
    captive('! qemu-io -f raw -c "write 0 4k" "$uri" 2>/dev/null', '--read-only', 'ram:1M')


main()
