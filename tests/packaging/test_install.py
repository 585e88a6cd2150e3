#!/usr/bin/env python3
"""`make install` and `make uninstall`: what is installed runs, and nothing of it stays behind."""

import os
import pathlib
import shutil
import subprocess

from unpacked import BUILD, SOURCE, case, main, ping, scratch, skip_all

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith('MAKE')}


def make(goal, destdir, *words):
    return subprocess.run(['make', '-C', SOURCE, goal, f'BUILD={BUILD}', f'DESTDIR={destdir}',
                           *words], text=True, capture_output=True, timeout=120, check=False,
                          env=ENVIRONMENT)


def expect(result):
    assert result.returncode == 0, result.stdout + result.stderr


def names(folder):
    return {path.relative_to(folder) for path in pathlib.Path(folder).rglob('*')}


@case
def what_is_installed_runs_and_uninstalling_leaves_nothing():
    with scratch() as folder:
        expect(make('install', folder))
        ping(pathlib.Path(folder, 'usr/local/bin/weft'), env={'PATH': os.environ['PATH']})
        expect(make('install', folder))
        expect(make('uninstall', folder))
        assert names(folder) == set(), names(folder)


@case
def files_of_others_stay():
    with scratch() as folder:
        foreign = pathlib.Path(folder, 'usr/local/include/weft/mine.h')
        foreign.parent.mkdir(parents=True)
        foreign.touch()
        expect(make('install', folder))
        expect(make('uninstall', folder))
        left = {path for path in names(folder) if pathlib.Path(folder, path).is_file()}
        assert left == {foreign.relative_to(folder)}, left


@case
def nothing_stands_where_the_systems_libraries_do():
    with scratch() as folder:
        expect(make('install', folder))
        for path in pathlib.Path(folder).rglob('lib*.so*'):
            is_private = path.parent.name == 'weft'
            assert is_private or path.name.startswith('libweft-'), path


@case
def a_name_that_is_none_is_refused():
    result = subprocess.run([SOURCE / 'tools/install', '--build', BUILD, 'bindri=/x'], text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 2 and 'bindri' in result.stderr, result.stderr


def configured(folder, *options):
    return subprocess.run(['meson', 'setup', folder, SOURCE, '-Dtests=disabled', *options],
                          text=True, capture_output=True, timeout=120, check=False)


@case
def libraries_are_found_from_whatever_folder_the_command_is_in():
    with scratch() as folder:
        build = pathlib.Path(folder, 'build')
        expect(configured(build, '--prefix=/opt/weft', '--bindir=lib/exec/weft',
                          '--libdir=/opt/weft/lib64'))
        assert '$ORIGIN/../../../lib64/weft' in (build / 'build.ninja').read_text().replace(
            '$$', '$').replace('\\', '')


@case
def folders_outside_of_the_prefix_are_refused():
    with scratch() as folder:
        result = configured(pathlib.Path(folder, 'build'), '--prefix=/usr', '--libdir=/opt/lib')
        assert result.returncode != 0 and 'must be below prefix' in result.stdout, result.stdout


if shutil.which('make') is None:
    skip_all('no make here')
main()
