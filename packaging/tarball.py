"""Tar archives that depend on what is in the files, and on nothing else."""

import gzip
import io
import pathlib
import stat
import tarfile


def _plain(member, epoch_s):
    """Nobody's, of one time, and with one of two modes."""
    member.uid = member.gid = 0
    member.uname = member.gname = ''
    member.mtime = epoch_s
    is_program = member.isdir() or member.issym() or member.mode & stat.S_IXUSR
    member.mode = 0o755 if is_program else 0o644
    return member


def packed(folder, inside, epoch_s):
    """The octets of an archive of everything in `folder`, sorted, below the name `inside`."""
    folder = pathlib.Path(folder)
    octets = io.BytesIO()
    with tarfile.open(fileobj=octets, mode='w', format=tarfile.GNU_FORMAT) as tar:
        for path in [folder] * bool(inside) + sorted(folder.rglob('*')):
            tar.add(path, arcname=pathlib.Path(inside, path.relative_to(folder)), recursive=False,
                    filter=lambda member: _plain(member, epoch_s))
    return octets.getvalue()


def zipped(octets, epoch_s):
    return gzip.compress(octets, compresslevel=6, mtime=epoch_s)
