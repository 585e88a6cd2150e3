"""Tarballs of weft as who gets them has them: unpacked somewhere, on a system with little else."""

import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'packaging'))

import ci_jobs  # noqa: E402
import elf  # noqa: E402
from cases import BUILD, SOURCE, Skip, case, free_port, main, scratch, skip_all  # noqa: E402


def made(into, *options, source=SOURCE, **settings):
    """The tarball that tools/dist makes of what is built in the tests' own build directory."""
    words = [source / 'tools/dist', '--build', BUILD, '--into', into, *options]
    result = subprocess.run(words, text=True, capture_output=True, timeout=900, **settings)
    assert result.returncode == 0, result.stderr
    return next(pathlib.Path(into).glob('weft-*.tar.gz')), result.stdout


def unpack(archive, folder):
    """The one folder in it."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
        return pathlib.Path(folder, tar.getnames()[0])


def sources(folder, name):
    """A copy of the tree without what was built in it, in a folder of that name."""
    copy = pathlib.Path(folder, name)
    shutil.copytree(SOURCE, copy, symlinks=True,
                    ignore=lambda place, names: {word for word in names if word == '.git'
                                                 or word.startswith('build')})
    return copy


def bare_root(folder, program):
    """A root directory with no more than this machine's glibc, at the places where it is here."""
    libraries = elf.resolved(program)['libc.so.6'].parent
    wanted = [path for path in libraries.iterdir() if elf.OF_GLIBC.fullmatch(path.name)]
    for path in (elf.interpreter(program), *wanted):
        place = pathlib.Path(folder, str(path).lstrip('/'))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return folder


def enter(root, *words):
    """Words as a process in a root directory, which is root there and nobody outside."""
    script = '''
        mkdir -p "$0/proc" "$0/dev" &&
        mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" &&
        exec timeout 60 chroot "$0" "$@"'''
    return subprocess.Popen(['unshare', '--map-root-user', '--mount', '--net', 'sh', '-c', script,
                             root, *words], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def mirror_is_away(said):
    """Whether it was Debian's mirror that ended mmdebstrap."""
    return any(words in said for words in (
        'Could not resolve', 'Could not connect', 'Unable to connect',
        'does not have a Release file', 'apt-get update --error-on=any'))


def ping(weft, **options):
    """rping under that weft, both ends; what is wrong with it."""
    if shutil.which('rping') is None:
        raise Skip('no program rping')
    words = [weft, 'run', 'rping', '-a', '127.0.0.1', '-p', str(free_port()), '-C', '3']
    with subprocess.Popen([*words, '-s'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **options) as server:
        try:
            for _ in range(50):
                client = subprocess.run([*words, '-c', '-v'], text=True, capture_output=True,
                                        timeout=60, **options)
                if client.returncode == 0 or server.poll() is not None:
                    break
                time.sleep(0.1)
            said = server.communicate(timeout=60)[0]
        finally:
            server.kill()
    assert client.returncode == 0 and server.returncode == 0, client.stderr + said
    assert client.stdout.count('ping data: rdma-ping-') == 3, client.stdout


__all__ = ['BUILD', 'SOURCE', 'Skip', 'bare_root', 'case', 'ci_jobs', 'elf', 'enter', 'made',
           'main', 'mirror_is_away', 'ping', 'scratch', 'skip_all', 'sources', 'unpack']
