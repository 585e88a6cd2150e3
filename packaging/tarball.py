"""A tar archive that depends on what is in the files, and on nothing else."""

import gzip
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


def write(folder, archive, epoch_s):
    """Everything in `folder`, below its own name, sorted."""
    folder = pathlib.Path(folder)
    paths = [folder, *sorted(folder.rglob('*'))]
    with open(archive, 'wb') as file, \
            gzip.GzipFile('', 'wb', compresslevel=6, fileobj=file, mtime=epoch_s) as packed, \
            tarfile.open(fileobj=packed, mode='w', format=tarfile.GNU_FORMAT) as tar:
        for path in paths:
            tar.add(path, arcname=path.relative_to(folder.parent), recursive=False,
                    filter=lambda member: _plain(member, epoch_s))
