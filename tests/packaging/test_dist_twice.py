#!/usr/bin/env python3
"""Two tarballs from the sources, in two folders and at two times, are the same octets."""

import os
import shutil
import subprocess

from unpacked import case, main, scratch, skip_all, sources


def built(copy):
    environment = {**os.environ, 'SOURCE_DATE_EPOCH': '1700000000', 'CC': 'gcc'}
    result = subprocess.run([copy / 'tools/dist'], env=environment, timeout=900, text=True,
                            capture_output=True)
    assert result.returncode == 0, result.stderr
    return next((copy / 'build-dist').glob('weft-*.tar.gz')).read_bytes()


@case
def two_folders_make_the_same_tarball():
    with scratch() as folder:
        copies = [sources(folder, name) for name in ('one', 'another of them')]
        assert len({built(copy) for copy in copies}) == 1


for tool in ('patchelf', 'gcc'):
    if shutil.which(tool) is None:
        skip_all(f'no {tool} here (tools/packages.sh build dist)')
main()
