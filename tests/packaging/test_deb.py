#!/usr/bin/env python3
"""The Debian packages: built, installed, used and purged in a clean chroot of each release.

With names of releases as arguments, those alone.
"""

import pathlib
import shutil
import subprocess
import sys

from unpacked import SOURCE, Skip, case, main, mirror_is_away, scratch, skip_all

SUITES = sys.argv[1:] or ['bookworm', 'trixie']


def run(tool, *words):
    return subprocess.run([SOURCE / 'tools' / tool, *words], text=True, capture_output=True,
                          timeout=3600, check=False)


def whole(suite):
    with scratch() as folder:
        built = run('deb', f'--suite={suite}', f'--into={folder}')
        if built.returncode != 0 and mirror_is_away(built.stderr):
            raise Skip(f'no chroot of {suite}: {built.stderr.strip().splitlines()[0]}')
        assert built.returncode == 0, '\n'.join((built.stdout + built.stderr).splitlines()[-40:])
        assert list(pathlib.Path(folder).glob('weft_*.dsc'))
        tried = run('deb-test', f'--suite={suite}', f'--from={folder}')
        said = tried.stdout + tried.stderr
        assert tried.returncode == 0 and tried.stdout.endswith(f'{suite}: whole\n'), said[-4000:]


def of(suite):
    def function():
        whole(suite)
    function.__name__ = f'packages_are_built_used_and_purged_on_{suite}'
    return function


if shutil.which('mmdebstrap') is None:
    skip_all('no mmdebstrap here (tools/packages.sh deb)')
for name in SUITES:
    case(of(name))
sys.argv[1:] = []
main()
