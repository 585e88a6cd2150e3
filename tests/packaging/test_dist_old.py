#!/usr/bin/env python3
"""The tarball for systems of glibc 2.31: made twice in clean chroots, and used in others.

With names of releases as arguments, those alone: where it is used.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tarfile

from unpacked import SOURCE, Skip, case, main, mirror_is_away, scratch, skip_all

OLDEST = 'bullseye'
SUITES = sys.argv[1:] or [OLDEST, 'bookworm']
ALL = scratch()


def run(tool, *words):
    result = subprocess.run([SOURCE / 'tools' / tool, *words], text=True, capture_output=True,
                            timeout=3600, check=False)
    if result.returncode != 0 and mirror_is_away(result.stderr):
        raise Skip(f'no chroot: {result.stderr.strip().splitlines()[0]}')
    assert result.returncode == 0, '\n'.join((result.stdout + result.stderr).splitlines()[-40:])
    return result.stdout


def archive(name):
    """The tarball in a folder of that name, made if it is not there yet."""
    folder = pathlib.Path(ALL.name, name)
    if not folder.is_dir():
        run('dist', f'--suite={OLDEST}', f'--into={folder}')
    return next(folder.glob('weft-*.tar.gz'))


@case
def it_asks_for_no_newer_glibc_than_2_31():
    with tarfile.open(archive('one')) as tar:
        name = next(name for name in tar.getnames() if name.endswith('/contents.json'))
        said = json.load(tar.extractfile(name))['glibc']
    assert tuple(map(int, said.split('.'))) <= (2, 31), said


@case
def two_chroots_make_the_same_octets():
    assert archive('one').read_bytes() == archive('another').read_bytes()


def of(suite):
    def function():
        said = run('dist-test', f'--suite={suite}', archive('one'))
        assert said.endswith(f'{suite}: runs\n'), said[-4000:]
    function.__name__ = f'it_runs_programs_and_serves_a_volume_on_{suite}'
    return function


if shutil.which('mmdebstrap') is None:
    skip_all('no mmdebstrap here (tools/packages.sh deb)')
for name in SUITES:
    case(of(name))
sys.argv[1:] = []
main()
