#!/usr/bin/env python3
"""packaging/debian says what the tree says, so that a package that is built seldom can be built."""

import re
import subprocess

from unpacked import SOURCE, case, main

DEBIAN = SOURCE / 'packaging/debian'
# What stands for packages that debhelper or every Debian machine has.
OTHERWISE = {'gcc': 'build-essential', 'libc6-dev': 'build-essential', 'make': 'build-essential',
             'binutils': 'build-essential', 'python3': 'python3:any'}


@case
def build_dependencies_are_what_a_build_takes():
    said = subprocess.run([SOURCE / 'tools/packages.sh', '--print', 'build'], text=True,
                          capture_output=True, check=True).stdout
    wanted = {OTHERWISE.get(word, word) for line in said.splitlines()
              for word in line.split(':', 1)[1].split()} - {'build-essential'}
    field = re.search(r'^Build-Depends: (.*?)^\S', (DEBIAN / 'control').read_text(), re.M | re.S)
    there = {word.split()[0] for word in field.group(1).split(',')} - {'debhelper-compat'}
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
def the_version_is_that_of_the_tree():
    version = re.search(r"version: '(.*)'", (SOURCE / 'meson.build').read_text()).group(1)
    first = (DEBIAN / 'changelog').read_text().splitlines()[0]
    assert first.startswith(f'weft ({version}-'), first


@case
def what_autopkgtest_is_told_of_is_there():
    for name in re.findall(r'^Tests: (.*)$', (DEBIAN / 'tests/control').read_text(), re.M):
        assert (DEBIAN / 'tests' / name).stat().st_mode & 0o111, name


main()
