#!/usr/bin/env python3
"""librdmacm.so.1 exports exactly the symbols and versions of rdma-core's.

symbols.txt is the list of what comes after rdma-core 64 (57 to 64 have no RDMACM_1.5, 44 to 56
no RDMACM_1.4 either); where the distribution's library is installed, it is asked as well.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OURS = pathlib.Path(os.environ.get('WEFT_BUILD_DIR', 'build')) / 'lib' / 'librdmacm.so.1'


def exported(library):
    text = subprocess.run(['nm', '-D', '--with-symbol-versions', str(library)], check=True,
                          capture_output=True, text=True).stdout
    words = (line.split() for line in text.splitlines())
    return {fields[2].replace('@@', '@') for fields in words
            if len(fields) == 3 and fields[1] in 'TW'}


def installed():
    listing = subprocess.run(['ldconfig', '-p'], capture_output=True, text=True,
                             env={**os.environ, 'PATH': '/usr/sbin:/sbin:' + os.environ['PATH']})
    for line in listing.stdout.splitlines():
        if 'librdmacm.so.1 ' in line:
            return line.split('=> ')[1]
    return None


def compare(number, name, wanted, found):
    print(f'{"ok" if wanted == found else "not ok"} {number} - {name}')
    for symbol in sorted(wanted - found):
        print(f'# missing: {symbol}')
    for symbol in sorted(found - wanted):
        print(f'# too much: {symbol}')
    return wanted == found


def of_versions(symbols, versions):
    """Those of `symbols` that have one of these versions."""
    return {symbol for symbol in symbols if symbol.partition('@')[2] in versions}


def main():
    if not OURS.exists():
        print(f'SKIP: {OURS} is not built')
        return 77
    found = exported(OURS)
    listed = set((HERE / 'symbols.txt').read_text().split())
    good = compare(1, 'the list of rdma-core', listed, found)
    library = installed()
    if library:
        theirs = exported(library)
        versions = {symbol.partition('@')[2] for symbol in theirs}
        good = compare(2, f'{library}', theirs, of_versions(found, versions)) and good
    else:
        print('ok 2 - the installed library # SKIP none')
    print('1..2')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
