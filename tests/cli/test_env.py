#!/usr/bin/env python3
"""weft env: what it prints makes programs find weft by their plain names."""

import json
import shutil
import subprocess

from cases import BUILD, Skip, case, expect, expect_error, main, weft

LIBRARY_DIR = str((BUILD / 'lib').resolve())
NOTHING = {'LD_LIBRARY_PATH': '', 'LD_PRELOAD': ''}
NASTY = "it's $HOME `id` \"a\\b\""


def shell(script, **variables):
    """What a shell says that has taken over what `weft env` printed, WEFT being the command."""
    return weft('-c', script, program='/bin/sh',
                env={**NOTHING, 'WEFT': BUILD / 'weft', **variables})


def as_object(*words, **variables):
    result = weft('env', '--format=json', *words, env={**NOTHING, **variables})
    expect(result, 0, None)
    return json.loads(result.stdout)


@case
def programs_find_weft_by_their_plain_names():
    if shutil.which('ibv_devices') is None:
        raise Skip('no program ibv_devices')
    result = shell('eval "$("$WEFT" env)" && ibv_devices')
    expect(result, 0, None)
    assert 'weft0' in result.stdout, result.stdout


@case
def settings_are_exported_as_they_are():
    script = 'eval "$("$WEFT" env --stats="$0" --crc=off)"; env | grep ^WEFT_ | sort'
    result = subprocess.run(['sh', '-c', script, NASTY], capture_output=True, text=True, timeout=60,
                            check=True, env={'PATH': '/bin:/usr/bin', 'WEFT': str(BUILD / 'weft')})
    assert result.stdout == f'WEFT_CRC=off\nWEFT_STATS_FILE={NASTY}\n', result


@case
def twice_is_once():
    expect(shell('eval "$("$WEFT" env)"; eval "$("$WEFT" env)"; echo "$LD_LIBRARY_PATH"',
                 LD_LIBRARY_PATH='/a:/b'), 0, f'{LIBRARY_DIR}:/a:/b\n')


@case
def a_folder_whose_name_goes_on_is_another():
    longer = f'{LIBRARY_DIR}64'
    assert as_object(LD_LIBRARY_PATH=longer)['LD_LIBRARY_PATH'] == f'{LIBRARY_DIR}:{longer}'


@case
def what_is_in_force_is_printed_too():
    assert as_object('--wire=iwarp', WEFT_MARKERS='on') == {
        'LD_LIBRARY_PATH': LIBRARY_DIR, 'WEFT_WIRE': 'iwarp', 'WEFT_MARKERS': 'on'}


@case
def the_view_comes_with_the_wire_that_needs_it():
    assert as_object('--wire=roce')['LD_PRELOAD'] == 'libweft-view.so'
    assert 'LD_PRELOAD' not in as_object('--wire=roce', '--view=off')
    assert as_object('--view=preload')['LD_PRELOAD'] == 'libweft-view.so'


@case
def lines_are_for_ci_systems():
    lines = f'LD_LIBRARY_PATH={LIBRARY_DIR}\nWEFT_STATS_FILE={NASTY}\n'
    for form in ('github', 'dotenv'):
        expect(weft('env', f'--format={form}', f'--stats={NASTY}', env=NOTHING), 0, lines)


@case
def a_value_that_a_line_cannot_hold_is_refused_and_nothing_printed():
    for form in ('github', 'dotenv'):
        expect_error(weft('env', '-f', form, '--stats=/a\nPATH=/evil'), 1, 'WEFT_STATS_FILE')
    assert as_object('--stats=/a\nb')['WEFT_STATS_FILE'] == '/a\nb'


@case
def wrong_words_are_named():
    expect(weft('env', '--format=xml'), 2, '', '--format=xml', 'weft help env')
    expect(weft('env', '--crc=perhaps'), 2, '', 'WEFT_CRC=perhaps', 'weft help env')
    expect(weft('env', '--nonsense'), 2, '', '--nonsense')
    expect(weft('env', 'rping'), 2, '', 'rping', 'weft run')


main()
