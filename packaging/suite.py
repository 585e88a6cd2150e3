"""Tarballs made in a clean chroot of another release, for targets whose glibc is that old."""

import os
import pathlib
import shutil
import tempfile

from command import SOURCE, epoch_s, need, run


def _is_built(_, names):
    return {name for name in names if name in ('.git', '__pycache__') or name.startswith('build')}


def made(suite, into):
    """The tarball of packaging/dist-in-chroot, from the tree as it is now."""
    need('mmdebstrap')
    mode = [] if os.geteuid() == 0 else ['--mode=unshare']
    with tempfile.TemporaryDirectory(prefix='weft-dist.') as scratch:
        # Debian's own user _apt cannot look into a folder of somebody else's.
        os.chmod(scratch, 0o755)
        sources, there = pathlib.Path(scratch, 'src'), pathlib.Path(scratch, 'made')
        shutil.copytree(SOURCE, sources, symlinks=True, ignore=_is_built)
        there.mkdir()
        run('mmdebstrap', *mode, '--quiet', '--variant=apt',
            '--customize-hook=mkdir "$1/src" "$1/made"',
            f'--customize-hook=sync-in {sources} /src',
            '--customize-hook=chroot "$1" env '
            f'SOURCE_DATE_EPOCH={epoch_s()} /src/packaging/dist-in-chroot',
            f'--customize-hook=sync-out /made {there}', suite, '/dev/null')
        into.mkdir(parents=True, exist_ok=True)
        return pathlib.Path(shutil.copy(next(there.glob('weft-*.tar.gz')), into))
