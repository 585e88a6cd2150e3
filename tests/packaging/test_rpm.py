#!/usr/bin/env python3
"""The spec file of RPM packages parses, and says what the tree says."""

import re
import shutil
import subprocess

from unpacked import SOURCE, Skip, case, main, skip_all

SPEC = SOURCE / 'packaging/weft.spec'


def query(form):
    result = subprocess.run(['rpmspec', '-q', '--qf', form, SPEC], text=True, capture_output=True,
                            timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@case
def it_makes_five_packages_of_the_version_of_the_tree():
    version = re.search(r"version: '(.*)'", (SOURCE / 'meson.build').read_text()).group(1)
    assert set(query('%{name} %{version}\n').splitlines()) == {
        f'{name} {version}'
        for name in ('weft', 'weft-node', 'weft-mdns', 'weft-libs', 'weft-devel')}


@case
def rpmlint_finds_no_error():
    if shutil.which('rpmlint') is None:
        raise Skip('no rpmlint here (tools/packages.sh rpm)')
    result = subprocess.run(['rpmlint', '-r', SPEC.with_suffix('.rpmlintrc'), SPEC], text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 0 and ' 0 errors' in result.stdout, result.stdout


@case
def as_many_libraries_are_required_as_for_debian():
    """The names differ, so only their number can be compared."""
    control = (SOURCE / 'packaging/debian/control').read_text()
    field = re.search(r'^Build-Depends: (.*?)^\S', control, re.M | re.S).group(1)
    debian = [word for word in field.split(',') if '-dev' in word]
    spec = re.findall(r'^BuildRequires: +(\S+-devel)', SPEC.read_text(), re.M)
    # Debian parts rdma-core's headers in two.
    assert len(spec) == len(debian) - 1, f'{spec}\n{debian}'


if shutil.which('rpmspec') is None:
    skip_all('no rpmspec here (tools/packages.sh rpm)')
main()
