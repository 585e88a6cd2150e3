#!/usr/bin/env python3
"""The CI action from nothing to Debian's own rping, in a clean chroot, with the times it took.

In the chroot is a release of Debian with rping. The action's own lines are played twice: of a
tarball, by somebody without rights and without a network; and of the sources, where root has all
else installed and built. The later steps call rping by its plain name.

With names of releases as arguments, those alone.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from unpacked import (SOURCE, Skip, case, ci_jobs, made, main, mirror_is_away, scratch, skip_all,
                      sources, unpack)

SUITES = sys.argv[1:] or ['bookworm']
PLAY = 'chroot "$1" /job/ci-in-chroot'
NOBODY = 'unshare --net setpriv --reuid=12345 --regid=12345 --clear-groups'


def job(folder):
    """What the chroot is given: /job."""
    script, variables = ci_jobs.action_step()
    (folder / 'action').write_text(script)
    (folder / 'variables').write_text(''.join(f'{name}={value}\n'
                                              for name, value in variables.items()))
    shutil.copy(SOURCE / 'packaging/ci-in-chroot', folder)
    archive, _ = made(folder)
    unpack(archive, folder).rename(folder / 'tarball')
    archive.unlink()
    sources(folder, 'sources')


def played(suite, folder):
    mode = [] if os.geteuid() == 0 else ['--mode=unshare']
    return subprocess.run(
        ['mmdebstrap', *mode, '--quiet', '--variant=apt',
         '--include=rdmacm-utils,ibverbs-utils,iproute2', '--customize-hook=mkdir "$1/job"',
         f'--customize-hook=sync-in {folder} /job',
         f'--customize-hook={PLAY} tarball /job/tarball {NOBODY}',
         f'--customize-hook={PLAY} sources /job/sources', suite, '/dev/null'],
        text=True, capture_output=True, timeout=3600, check=False)


def passes(suite):
    with scratch() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        job(folder)
        result = played(suite, folder)
    said = result.stdout + result.stderr
    if result.returncode != 0 and mirror_is_away(result.stderr):
        raise Skip(f'no chroot of {suite}: {result.stderr.strip().splitlines()[0]}')
    assert result.returncode == 0, said[-4000:]
    times = re.findall(r'^(\w+: .* after \d+ s)$', said, re.M)
    print(*(f'# {suite}, {line}' for line in times), sep='\n', flush=True)
    assert len(times) == 6 and said.count('ping data: rdma-ping-') == 6, said[-4000:]


def of(suite):
    def function():
        passes(suite)
    function.__name__ = f'from_nothing_to_rping_by_its_plain_name_on_{suite}'
    return function


for tool in ('mmdebstrap', 'patchelf'):
    if shutil.which(tool) is None:
        skip_all(f'no {tool} here (tools/packages.sh dist deb)')
for name in SUITES:
    case(of(name))
sys.argv[1:] = []
main()
