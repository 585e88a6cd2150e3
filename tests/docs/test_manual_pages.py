#!/usr/bin/env python3
"""`man FUNCTION` finds a page for every function of the public headers, once weft is installed."""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import BUILD, SOURCE, Skip, case, main, scratch  # noqa: E402

# At the beginning of a line stands code, not a comment; a type of a function pointer has no name.
DECLARATION = re.compile(r'^(?!//|#|typedef)[a-z].*?\b(weft_\w+)\(', re.M)


def declared():
    """{header: its functions}"""
    headers = sorted(SOURCE.glob('include/weft/*.h'))
    return {path.name: set(DECLARATION.findall(path.read_text())) for path in headers}


def named(page):
    """What a page says in NAME that it describes."""
    text = (SOURCE / 'man' / page).read_text()
    return set(re.findall(r'^\.Nm (weft_\w+)', text.split('.Sh SYNOPSIS')[0], re.M))


@case
def every_header_has_a_page_that_names_its_functions():
    pages = {page.name: page.read_text() for page in SOURCE.glob('man/*.3')}
    for header, functions in declared().items():
        page = [name for name, text in pages.items() if f'.In weft/{header}\n' in text]
        assert len(page) == 1, f'{header}: {page}'
        assert functions and functions <= named(page[0]), functions - named(page[0])


@case
def synopses_have_every_function():
    for header, functions in declared().items():
        page = next(path.read_text() for path in SOURCE.glob('man/*.3')
                    if f'.In weft/{header}\n' in path.read_text())
        for function in functions:
            assert re.search(rf'^\.F[no] {function}\b', page, re.M), f'{header}: {function}'


@case
def man_finds_every_function_where_weft_is_installed():
    if shutil.which('man') is None:
        raise Skip('no program man')
    with scratch() as folder:
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet',
                        '--tags', 'man', '--destdir', folder], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        (place,) = {path.parent.parent for path in pathlib.Path(folder).rglob('weft.7')}
        for function in set().union(*declared().values()):
            found = subprocess.run(['man', '-M', place, '-w', '3', function], text=True,
                                   capture_output=True, timeout=60)
            assert found.returncode == 0, f'man {function}: {found.stderr}'
            page = pathlib.Path(found.stdout.strip()).resolve()
            assert function in named(page.name), f'{function}: {page}'


main()
