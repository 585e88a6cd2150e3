#!/usr/bin/env python3
"""What the system's libibverbs exports, ours exports at the same versions, and so what that of
rdma-core 65 has which older ones have not (symbols-newer.txt); and the RDMA programs that are
installed here resolve against ours."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

LIB_DIR = pathlib.Path(os.environ['WEFT_BUILD_DIR']) / 'lib'
PROGRAMS = '''ibv_devices ibv_devinfo ibv_asyncwatch ibv_rc_pingpong ibv_srq_pingpong ib_send_bw
    ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw qperf fi_info tgtd
    rping ucmatose cmtime rdma_client rdma_server rstream qemu-system-x86_64'''.split()
HERE = pathlib.Path(__file__).resolve().parent
PRIVATE = 'IBVERBS_PRIVATE_'
LATER = '57', '59', '64', '65'  # of the private interface, which rdma-core's own libraries ask for
LIBRARIES = ['libmlx5.so.1', 'libefa.so.1', 'libfabric.so.1', 'librpma.so.0', 'libiscsi.so.7']

failures = []


def report(number, name, problems):
    print(f'{"not ok" if problems else "ok"} {number} - {name}')
    for problem in problems:
        print(f'# {problem}')
        failures.append(problem)


def symbols(library):
    """'name@version' or 'name@@version' (the default) of everything it exports."""
    listing = subprocess.run(['nm', '-D', '--defined-only', str(library)], capture_output=True,
                             text=True, check=True).stdout
    return {line.split()[-1] for line in listing.splitlines() if line.split()[-2] != 'A'}


def newer(ours):
    """What libraries and programs of newer versions ask for."""
    listed = set((HERE / 'symbols-newer.txt').read_text().split())
    registers = {f'verbs_register_driver_{later}@{PRIVATE}{later}' for later in LATER}
    shared = {name.split('@')[0] for name in ours if name.endswith(PRIVATE + '34')}
    return listed | registers | {f'{name}@{PRIVATE}{later}' for name in shared for later in LATER
                                 if not name.startswith('verbs_register_driver')}


def system_library(name):
    listing = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True, text=True).stdout
    found = re.search(rf'^\s*{re.escape(name)} .*=> (\S+)$', listing, flags=re.M)
    return found and found.group(1)


def unresolved(path):
    """What the loader does not find when the program runs on our libraries."""
    env = dict(os.environ, LD_LIBRARY_PATH=str(LIB_DIR))
    env.pop('LD_PRELOAD', None)
    result = subprocess.run(['ldd', '-r', path], capture_output=True, text=True, env=env)
    lines = (result.stdout + result.stderr).splitlines()
    return [f'{path}: {line.strip()}' for line in lines
            if 'undefined symbol' in line or 'not found' in line]


def run_path(path):
    """The folders in which the loader looks for what `path` needs."""
    said = subprocess.run(['readelf', '-d', path], capture_output=True, text=True).stdout
    found = re.search(r'\(RUNPATH\).*\[(.*)\]', said)
    return found.group(1).split(':') if found else []


def uses_ours(path):
    env = dict(os.environ, LD_LIBRARY_PATH=str(LIB_DIR))
    result = subprocess.run(['ldd', path], capture_output=True, text=True, env=env).stdout
    return str(LIB_DIR / 'libibverbs.so.1') in result


def main():
    real = system_library('libibverbs.so.1')
    if real is None:
        print('SKIP: libibverbs1 is not installed here, so there is nothing to compare with')
        sys.exit(77)
    ours = symbols(LIB_DIR / 'libibverbs.so.1')
    missing = symbols(real) - ours
    report(1, f'every symbol of {real} is there', [f'missing: {name}' for name in sorted(missing)])
    missing = newer(ours) - {name.replace('@@', '@') for name in ours}
    report(2, 'every symbol of newer ones is there',
           [f'missing: {name}' for name in sorted(missing)])

    paths = [path for path in map(shutil.which, PROGRAMS) if path]
    paths += [path for path in map(system_library, LIBRARIES) if path]
    paths += glob.glob('/usr/lib/python3/dist-packages/pyverbs/device*.so')
    paths = [path for path in paths if uses_ours(path)]
    report(3, f'{len(paths)} installed programs and libraries resolve',
           sorted(sum(map(unresolved, paths), [])))
    relative = [f'{path}: {folder}' for path in (LIB_DIR.parent / 'weft', *LIB_DIR.glob('*.so.1'))
                for folder in run_path(path) if not folder.startswith(('/', '$ORIGIN'))]
    report(4, 'none of ours is looked for in a relative folder', relative)
    print('1..4')
    sys.exit(1 if failures else 0)


main()
