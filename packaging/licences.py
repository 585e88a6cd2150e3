"""Whose the files of the distribution are that are passed on, and under which licence."""

import pathlib
import shutil
import subprocess

from command import Fault, run


def places(file):
    """Where its package may say that a file is: before or behind links, one of them /usr's."""
    real = str(pathlib.Path(file).resolve())
    return [str(file), real, real.removeprefix('/usr'), f'/usr{file}']


def owners(files):
    """{file: (package, its source and version)}; of a file that nobody knows ('', '').

    All are asked for at once: to answer for one, dpkg reads what all packages have.
    """
    if shutil.which('dpkg-query') is None:
        return {file: ('', '') for file in files}
    wanted = [place for file in files for place in places(file)]
    told = subprocess.run(['dpkg-query', '-S', *wanted], capture_output=True, text=True).stdout
    package_of = {}
    for line in told.splitlines():
        package, _, place = line.partition(': ')
        if not package.startswith('diversion by '):
            package_of[place] = package.split(':')[0]
    found = {file: next((package_of[place] for place in places(file) if place in package_of), '')
             for file in files}
    versions = {'': ''}
    if any(found.values()):
        form = '${Package} ${source:Package} ${Version}\n'
        listing = run('dpkg-query', '-W', '-f', form, *sorted(set(found.values()) - {''}))
        versions.update(line.split(' ', 1) for line in listing.splitlines())
    return {file: (package, versions[package]) for file, package in found.items()}


def add(package, folder):
    """The licence of a package, into a folder."""
    licence = pathlib.Path('/usr/share/doc', package, 'copyright')
    if not package or not licence.is_file():
        raise Fault('no licence', package or 'a file of no package',
                    'what is passed on must have its licence with it',
                    'pack where packages own their files: Debian or Ubuntu')
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(licence, folder / f'{package}.copyright')
