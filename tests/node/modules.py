"""Drivers as modules, compiled as their users do."""

from serving import need, pathlib, run
from judge import SOURCE


def build(place, source, name='memory', *words):
    """A shared object of the source, by the header as it is installed and nothing else of weft."""
    need('cc')
    header = pathlib.Path(place, 'include', 'weft', 'ddm.h')
    if not header.exists():
        header.parent.mkdir(parents=True)
        header.write_bytes((SOURCE / 'include' / 'weft' / 'ddm.h').read_bytes())
    if not isinstance(source, pathlib.Path):
        path = pathlib.Path(place, f'{name}.c')
        path.write_text(source)
        source = path
    path = pathlib.Path(place, f'{name}.so')
    run('cc', '-D_GNU_SOURCE', '-Wall', '-Werror', '-shared', '-fPIC', '-I', header.parents[1],
        '-o', path, source, *words)
    path.chmod(0o755)
    return path
