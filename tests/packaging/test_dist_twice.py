#!/usr/bin/env python3
"""Two tarballs from the sources, in two folders and at two times, are the same octets."""

import os
import pathlib
import shutil
import subprocess

from unpacked import SOURCE, case, main, scratch, skip_all


def built(folder, name):
    """From a copy of the sources in a folder of that name."""
    copy = pathlib.Path(folder, name)
    shutil.copytree(SOURCE, copy, symlinks=True,
                    ignore=lambda place, names: {word for word in names if word == '.git'
                                                 or word.startswith('build')})
    environment = {**os.environ, 'SOURCE_DATE_EPOCH': '1700000000', 'CC': 'gcc'}
    subprocess.run([copy / 'tools/dist'], env=environment, check=True, timeout=900,
                   capture_output=True)
    return next((copy / 'build-dist').glob('weft-*.tar.gz')).read_bytes()


@case
def two_folders_make_the_same_tarball():
    with scratch() as folder:
        assert built(folder, 'one') == built(folder, 'another of them')


for tool in ('patchelf', 'gcc'):
    if shutil.which(tool) is None:
        skip_all(f'no {tool} here (tools/packages.sh build dist)')
main()
