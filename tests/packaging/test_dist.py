#!/usr/bin/env python3
"""The tarball of tools/dist: the same octets each time, and it runs wherever it is unpacked."""

import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

from unpacked import (BUILD, SOURCE, Skip, bare_root, case, elf, enter, made, main, ping, scratch,
                      skip_all, unpack)

EPOCH = {'SOURCE_DATE_EPOCH': '1700000000'}
ALL = scratch()


@functools.cache
def archive():
    """Made once for all cases."""
    return made(ALL.name, env={**os.environ, **EPOCH})[0]


@functools.cache
def unpacked():
    """Likewise, in a folder whose name is words; it is a root directory with glibc besides."""
    place = pathlib.Path(ALL.name, 'a folder, with words')
    place.mkdir()
    return unpack(archive(), place)


def files(folder):
    return [path for path in folder.rglob('*') if path.is_file()]


@case
def two_tarballs_of_one_build_are_the_same_octets():
    other = {'TZ': 'Asia/Tokyo', 'LC_ALL': 'C', 'TMPDIR': '/var/tmp', **EPOCH}
    with scratch() as folder:
        again, _ = made(folder, env={**os.environ, **other}, cwd=folder, umask=0o077)
        assert again.name == archive().name
        assert again.read_bytes() == archive().read_bytes()


@case
def the_time_of_its_files_is_the_one_given():
    assert {int(path.stat().st_mtime) for path in files(unpacked())} == {
        int(EPOCH['SOURCE_DATE_EPOCH'])}


@case
def a_time_that_is_no_number_is_refused():
    result = subprocess.run([SOURCE / 'tools/dist', '--build', BUILD], text=True,
                            capture_output=True, timeout=60,
                            env={**os.environ, 'SOURCE_DATE_EPOCH': 'yesterday'})
    assert result.returncode == 1 and 'SOURCE_DATE_EPOCH=yesterday' in result.stderr, result.stderr


@case
def nothing_in_it_names_the_folder_it_was_made_in():
    for path in files(unpacked()):
        for place in {SOURCE, BUILD}:
            assert str(place).encode() not in path.read_bytes(), f'{path} names {place}'


@case
def its_manual_completions_and_licences_are_there():
    place = unpacked()
    for name in ('share/man/man1/weft.1', 'share/man/man7/weft.7', 'share/doc/weft/LICENSE',
                 'share/bash-completion/completions/weft',
                 'share/zsh/site-functions/_weft', 'share/fish/vendor_completions.d/weft.fish'):
        assert (place / name).is_file(), name
    contents = json.loads((place / 'share/doc/weft/contents.json').read_text())
    assert contents['bundled']
    for one in contents['bundled']:
        assert (place / f'share/doc/weft/bundled/{one["package"]}.copyright').is_file(), one


@case
def it_asks_for_no_newer_glibc_than_it_says():
    said = json.loads((unpacked() / 'share/doc/weft/contents.json').read_text())['glibc']
    listings = [subprocess.run(['objdump', '-T', path], text=True, capture_output=True,
                               check=True).stdout for path in files(unpacked()) if elf.is_elf(path)]
    newest = max(tuple(map(int, version.split('.')))
                 for version in re.findall(r'GLIBC_(2[.0-9]+)', '\n'.join(listings)))
    assert said == '.'.join(map(str, newest)), f'{said}, not {newest}'


@case
def programs_run_on_it_from_any_folder():
    ping(unpacked() / 'bin/weft', env={'PATH': os.environ['PATH']}, cwd='/')


@case
def programs_do_not_get_what_is_bundled():
    program = shutil.which('ibv_devices')
    if program is None:
        raise Skip('no program ibv_devices')
    said = subprocess.run([unpacked() / 'bin/weft', 'run', 'ldd', program], text=True,
                          capture_output=True, timeout=60, check=True,
                          env={'PATH': os.environ['PATH']}).stdout
    assert 'weft/libibverbs.so.1' in said, said
    bundled = [line for line in said.splitlines() if '/bundled/' in line]
    assert all('libisal.so' in line for line in bundled), said


@case
def a_system_with_glibc_alone_serves_a_volume():
    weft = unpacked() / 'bin/weft'
    root = bare_root(weft.parents[2], weft)
    with enter(root, '/' / weft.relative_to(root), 'serve', '--nbd=unix:/nbd', 'ram:1M') as node:
        first = node.stdout.readline()
        node.send_signal(signal.SIGTERM)
        _, error = node.communicate(timeout=60)
    if 'unshare: ' in error:
        raise Skip(f'no root directory of our own here: {error.strip()}')
    assert first.startswith('volume ram: 1M') and node.returncode == 0, first + error


@case
def the_scripts_of_ci_jobs_in_it_need_no_tree():
    place = unpacked()
    for name in ('action.yml', '.gitlab/weft.yml'):
        assert (place / name).read_bytes() == (SOURCE / name).read_bytes()
    with scratch() as folder:
        into = pathlib.Path(folder, 'weft.env')
        result = subprocess.run(
            [place / 'tools/ci', '--format=shell', f'--into={into}', f'--kept={folder}/kept',
             '--wire=iwarp'], cwd=folder, text=True, capture_output=True, timeout=60,
            env={'PATH': os.environ['PATH']})
        assert result.returncode == 0, result.stderr
        assert str(place / 'lib') in into.read_text(), into.read_text()


if shutil.which('patchelf') is None:
    skip_all('no patchelf here (tools/packages.sh dist)')
main()
