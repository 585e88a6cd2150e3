#!/usr/bin/env python3
"""The RPM packages are built, and have in them what their users look for."""

import pathlib
import shutil
import subprocess

from unpacked import SOURCE, case, main, scratch, skip_all

# A file of each.
FILES = {'weft-0': '/usr/bin/weft', 'weft-node': '/usr/lib/systemd/system/weft-node.service',
         'weft-mdns': '/usr/lib64/weft/weft-mdns.so',
         'weft-libs': '/usr/lib64/libweft-nvme.so.1', 'weft-devel': '/usr/include/weft/nvme.h'}


@case
def packages_are_built():
    with scratch() as folder:
        result = subprocess.run([SOURCE / 'tools/rpm', f'--into={folder}'], text=True,
                                capture_output=True, timeout=1800)
        assert result.returncode == 0, result.stderr[-4000:]
        for name, file in FILES.items():
            package = next(pathlib.Path(folder).glob(f'{name}*.x86_64.rpm'))
            there = subprocess.run(['rpm', '-qlp', package], text=True, capture_output=True,
                                   check=True).stdout.splitlines()
            assert file in there, f'{package.name}: {there}'


if shutil.which('rpmbuild') is None:
    skip_all('no rpmbuild here (tools/packages.sh rpm)')
main()
