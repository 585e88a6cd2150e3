"""What programs and shared libraries ask of the system that loads them."""

import pathlib
import re
import subprocess

# What any system with glibc has, of one piece with the rest of it; libgcc_s is loaded by
# pthread_exit.
OF_GLIBC = re.compile(
    r'ld-linux.*|linux-vdso.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|gcc_s)\.so\.\d+')


def is_elf(path):
    path = pathlib.Path(path)
    if path.is_symlink() or not path.is_file():
        return False
    with path.open('rb') as file:
        return file.read(4) == b'\x7fELF'


def headers(path):
    return subprocess.run(['objdump', '-p', path], capture_output=True, text=True,
                          check=True).stdout


def needed(path):
    """The sonames that it names itself."""
    return re.findall(r'^\s+NEEDED\s+(\S+)$', headers(path), re.M)


def glibc_needed(paths):
    """The newest version of glibc's symbols that any of them asks for: (2, 36); (0,): none."""
    found = {tuple(map(int, version.split('.')))
             for path in paths
             for version in re.findall(r'\bGLIBC_([0-9.]+)$', headers(path), re.M)}
    return max(found, default=(0,))


def resolved(path):
    """{soname: file} of all that the dynamic linker of this machine loads for it."""
    said = subprocess.run(['ldd', path], capture_output=True, text=True, check=True).stdout
    missing = re.findall(r'^\s+(\S+) => not found$', said, re.M)
    if missing:
        raise FileNotFoundError(f'{path}: not found here: {", ".join(missing)}')
    return {soname: pathlib.Path(file)
            for soname, file in re.findall(r'^\s+(\S+) => (/\S.*) \(0x', said, re.M)}


def interpreter(program):
    """The dynamic linker that it is started by."""
    said = subprocess.run(['readelf', '-l', program], capture_output=True, text=True,
                          check=True).stdout
    return pathlib.Path(re.search(r'interpreter: (\S+)\]', said).group(1))
