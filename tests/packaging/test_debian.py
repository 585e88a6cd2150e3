#!/usr/bin/env python3
"""packaging/debian says what the tree says, so that a package that is built seldom can be built."""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess

from unpacked import BUILD, SOURCE, Skip, case, main, scratch

DEBIAN = SOURCE / 'packaging/debian'
# What packages are made with, not weft.
PACKAGING_ALONE = {'debhelper-compat', 'dh-apparmor'}
# What stands for packages that debhelper or every Debian machine has.
OTHERWISE = {'gcc': 'build-essential', 'libc6-dev': 'build-essential', 'make': 'build-essential',
             'binutils': 'build-essential', 'python3': 'python3:any',
             'pkg-config': 'pkgconf'}


@case
def build_dependencies_are_what_a_build_takes():
    said = subprocess.run([SOURCE / 'tools/packages.sh', '--print', 'build'], text=True,
                          capture_output=True, check=True).stdout
    wanted = {OTHERWISE.get(word, word) for line in said.splitlines()
              for word in line.split(':', 1)[1].split()} - {'build-essential'}
    field = re.search(r'^Build-Depends: (.*?)^\S', (DEBIAN / 'control').read_text(), re.M | re.S)
    there = {word.split()[0] for word in field.group(1).split(',')} - PACKAGING_ALONE
    assert there == wanted, f'differ in {there ^ wanted}'


@case
def symbols_files_have_what_the_version_scripts_export():
    for name, script in (('manager', 'manager/libweft-manager.map'),
                         ('nvme', 'initiator/libweft-nvme.map')):
        symbols = (DEBIAN / f'libweft-{name}1.symbols').read_text()
        there = set(re.findall(r'^ (weft_\w+)@', symbols, re.M))
        wanted = set(re.findall(r'^ +(weft_\w+);', (SOURCE / script).read_text(), re.M))
        assert there == wanted and wanted, f'{name}: differ in {there ^ wanted}'


@case
def each_library_of_wefts_own_is_in_one_package():
    """So that what only some want depends on nothing for the others."""
    said = subprocess.run(['meson', 'introspect', '--installed', BUILD], text=True,
                          capture_output=True, check=True).stdout
    there = {pathlib.Path(path).name for path in json.loads(said).values()
             if re.search(r'/weft/[^/]+\.so(\.1)?$', path)}
    packages = {}
    for file in DEBIAN.glob('*.install'):
        for pattern in file.read_text().split():
            folder, _, name = pattern.rpartition('/')
            for found in fnmatch.filter(there, name) if folder == 'usr/lib/*/weft' else ():
                packages.setdefault(found, []).append(file.stem)
    left_out = {line.rpartition('/')[2] for line in (DEBIAN / 'not-installed').read_text().split()}
    left_out.add('weft-rbd.so')
    assert there - left_out == set(packages), f'{there}: {packages}'
    assert all(len(names) == 1 for names in packages.values()), packages
    if 'weft-mdns.so' in there:
        assert packages['weft-mdns.so'] == ['weft-mdns'], packages


@case
def the_version_is_that_of_the_tree():
    version = re.search(r"version: '(.*)'", (SOURCE / 'meson.build').read_text()).group(1)
    first = (DEBIAN / 'changelog').read_text().splitlines()[0]
    assert first.startswith(f'weft ({version}-'), first


@case
def the_units_are_of_the_package_of_the_node():
    if shutil.which('dh_installsystemd') is None:
        raise Skip('no debhelper')
    with scratch() as name:
        folder = pathlib.Path(name)
        shutil.copytree(DEBIAN, folder / 'debian')
        subprocess.run(['debian/rules', 'override_dh_installsystemd'], cwd=folder, check=True,
                       capture_output=True)
        units = {unit.name for unit in (folder / 'debian').glob('*/**/systemd/system/*')}
        assert units == {'weft-node.service', 'weft-node.socket'}, units
        said = (folder / 'debian/weft-node.postrm.debhelper').read_text()
        assert all(unit in said for unit in units), said


@case
def what_autopkgtest_is_told_of_is_there():
    for name in re.findall(r'^Tests: (.*)$', (DEBIAN / 'tests/control').read_text(), re.M):
        assert (DEBIAN / 'tests' / name).stat().st_mode & 0o111, name


@case
def a_tree_that_differs_from_its_commit_is_packed_with_a_word():
    with scratch() as folder:
        tree, tools, into = (pathlib.Path(folder, name) for name in ('tree', 'bin', 'into'))
        for place in (tree / 'tools', tree / 'packaging/debian', tools):
            place.mkdir(parents=True)
        shutil.copy(SOURCE / 'tools/deb', tree / 'tools/deb')
        shutil.copy(SOURCE / 'meson.build', tree)
        for name in ('dpkg-buildpackage', 'dh', 'fakeroot', 'lintian'):
            (tools / name).symlink_to('/bin/true')
        environment = {**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}'}

        def said():
            return subprocess.run([tree / 'tools/deb', f'--into={into}'], text=True, check=True,
                                  capture_output=True, env=environment, timeout=60).stderr

        for words in (['init', '-q'], ['add', '.'],
                      ['-c', 'user.name=x', '-c', 'user.email=x', 'commit', '-qm', 'x']):
            subprocess.run(['git', '-C', tree, *words], check=True)
        assert said() == ''
        (tree / 'new').touch()
        assert said().endswith('not as in the last commit: 1\n')


def printed_by(*words):
    """What a judge says, who says nothing if all is well."""
    if shutil.which(words[0]) is None:
        raise Skip(f'no {words[0]} here')
    said = subprocess.run(words, text=True, capture_output=True, timeout=60)
    return f'status {said.returncode}: {said.stdout}{said.stderr}'


@case
def systemd_finds_nothing_wrong_with_the_units():
    with scratch() as folder:
        units = []
        for name in ('weft-node.service', 'weft-node.socket'):
            units.append(pathlib.Path(folder, name))
            text = (DEBIAN / name).read_text()
            units[-1].write_text(text.replace('/usr/bin/weft', str(BUILD / 'weft')))
        said = printed_by('systemd-analyze', 'verify', '--man=no', *units)
        assert said == 'status 0: ', said


@case
def apparmor_understands_the_profile_that_the_unit_names():
    profile = re.search('^AppArmorProfile=-(.*)', (DEBIAN / 'weft-node.service').read_text(), re.M)
    path = SOURCE / 'packaging/apparmor' / profile.group(1)
    assert f'\nprofile {profile.group(1)} ' in path.read_text()
    said = printed_by('apparmor_parser', '--skip-kernel-load', '--skip-cache', path)
    assert said.startswith('status 0: ') and 'error' not in said.lower(), said


@case
def the_node_is_configured_for_the_socket_by_its_name():
    name = re.search('^FileDescriptorName=(.*)', (DEBIAN / 'weft-node.socket').read_text(), re.M)
    assert f'= fd:{name.group(1)} ' in (DEBIAN / 'node.conf').read_text()


main()
