"""Whose the files of the distribution are that are passed on, and under which licence."""

import pathlib
import shutil
import subprocess

from command import Fault, run


def owner(file):
    """(package, its source and version) of a file; ('', '') where nobody knows."""
    if shutil.which('dpkg-query') is None:
        return '', ''
    real = pathlib.Path(file).resolve()
    for path in (file, real, str(real).removeprefix('/usr'), f'/usr{file}'):
        said = subprocess.run(['dpkg-query', '-S', path], capture_output=True, text=True)
        if said.returncode == 0:
            package = said.stdout.split(':')[0]
            return package, run('dpkg-query', '-W', '-f', '${source:Package} ${Version}', package)
    return '', ''


def add(package, folder):
    """The licence of a package, into a folder."""
    licence = pathlib.Path('/usr/share/doc', package, 'copyright')
    if not package or not licence.is_file():
        raise Fault('no licence', package or 'a file of no package',
                    'what is passed on must have its licence with it',
                    'pack where packages own their files: Debian or Ubuntu')
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(licence, folder / f'{package}.copyright')
