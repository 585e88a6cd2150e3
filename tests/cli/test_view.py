#!/usr/bin/env python3
"""weft run --view: the devices at the paths of the system's, and nothing else changed."""

import os
import pathlib
import re
import subprocess

from cases import BUILD, SOURCE, case, expect, main, scratch, weft

MAP = (SOURCE / 'view/libweft-view.map').read_text()
CALLS = re.findall(r'^ {8}(\w+);$', MAP.partition('local:')[0], re.M)
NOT_FOUND = ['made twice', 'path that begins alike', 'device that is not there']


def answers(*words, folder):
    """What each call found, by its name; the program may make files in the folder."""
    program = BUILD / 'tests/cli/view_program'
    result = weft('run', *words, program, folder, env={'WEFT_RUNTIME_DIR': str(folder)})
    expect(result, 0, None)
    return dict(line.rsplit(' ', 1) for line in result.stdout.splitlines())


@case
def every_call_sees_the_device():
    with scratch() as folder:
        said = answers('--view=preload', folder=folder)
        assert len(CALLS) > 30, CALLS
        assert set(CALLS) <= set(said), set(CALLS) - set(said)
        wrong = [name for name, answer in said.items()
                 if answer != ('no' if name in NOT_FOUND else 'yes')]
        assert not wrong, wrong


@case
def without_it_no_call_does():
    if os.path.exists('/sys/class/infiniband/weft0'):
        return
    with scratch() as folder:
        for words in [[], ['--view=off']]:
            where = pathlib.Path(folder) / f'run{len(words)}'
            where.mkdir()
            said = answers(*words, folder=where)
            found = [name for name in CALLS if said[name] == 'yes']
            assert not found, found


@case
def nothing_is_left_behind():
    with scratch() as folder:
        run = weft('run', '--view=preload', 'ls', '/sys/class/infiniband',
                   env={'WEFT_RUNTIME_DIR': folder})
        expect(run, 0, 'weft0\nweft_roce0\n')
        assert not os.listdir(folder), os.listdir(folder)
        run = weft('run', '--view=preload', 'ibv_devinfo', env={'WEFT_RUNTIME_DIR': folder})
        expect(run, 0, None)
        assert not os.listdir(folder), os.listdir(folder)


@case
def programs_that_look_elsewhere_make_nothing():
    with scratch() as folder:
        expect(weft('run', '--view=preload', 'cat', '/sys/class/infinibandx', '/dev/null',
                    env={'WEFT_RUNTIME_DIR': folder}), 1, '')
        assert not os.listdir(folder), os.listdir(folder)


@case
def programs_that_it_starts_see_it_too():
    script = 'cat /sys/class/infiniband/weft0/ports/1/link_layer; ls /dev/infiniband'
    expect(weft('run', '--view=preload', 'sh', '-c', script), 0, 'Ethernet\nweft0\nweft_roce0\n')


@case
def who_goes_into_the_folder_is_among_the_devices():  # as ibstatus does
    script = ('cd /sys/class/infiniband && echo * && cat weft_roce0/fw_ver && '
              'cd weft0/ports/1 && cat state')
    version = re.search(r'version: \'([^\']+)', (SOURCE / 'meson.build').read_text())[1]
    expect(weft('run', '--view=preload', 'sh', '-c', script), 0,
           f'weft0 weft_roce0\n{version}\n4: ACTIVE\n')


@case
def it_stands_before_what_is_preloaded_already():
    show = ['sh', '-c', 'echo $LD_PRELOAD']
    expect(weft('run', '--view=preload', *show), 0, 'libweft-view.so\n')
    other = str(BUILD / 'lib/libweft.so.1')
    expect(weft('run', '--view=preload', *show, env={'LD_PRELOAD': other}), 0,
           f'libweft-view.so:{other}\n')
    expect(weft('run', *show), 0, '\n')


@case
def other_views_are_refused():
    expect(weft('run', '--view=namespace', 'true'), 2, '', '--view=namespace', 'preload or off')


@case
def the_library_needs_nothing_but_libc():
    library = BUILD / 'lib/libweft-view.so'
    listing = subprocess.run(['readelf', '-d', library], capture_output=True, text=True,
                             check=True).stdout
    assert set(re.findall(r'NEEDED.*\[(.*)\]', listing)) <= {'libc.so.6', 'ld-linux-x86-64.so.2'}, \
        listing


main()
