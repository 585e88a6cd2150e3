"""globals, exports, linked: what only the compiled objects can tell."""

import re
import subprocess

from . import house

# The programs and libraries of a build; the static libraries of all engine rooms are in them.
READ = ('weft', *(f'lib/{name}' for name in house.LIBRARIES))

# `objdump -t`: value, flags, section, size, name. Common symbols stand in section *COM*.
_SYMBOL = re.compile(r'^[0-9a-f]+ (.{7}) (\S+)\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$')
_MEMBER = re.compile(r'^(\S+):\s+file format', flags=re.M)


def _is_writable(section):
    """.data.rel.ro holds const tables of pointers: writable only while the loader relocates it."""
    if section.startswith('.data.rel.ro'):
        return False
    return section == '*COM*' or section.startswith(('.data', '.bss', '.tdata', '.tbss'))


def _mutable_symbols(archive):
    """(object file, symbol) for every variable in writable memory."""
    listing = subprocess.run(['objdump', '-t', str(archive)], capture_output=True, text=True,
                             check=True).stdout
    member = ''
    for line in listing.splitlines():
        found = _MEMBER.match(line)
        if found:
            member = found.group(1)
        found = _SYMBOL.match(line)
        if found and 'd' not in found.group(1) and _is_writable(found.group(2)):
            yield member, found.group(3).split('.')[0]


def _declaration(tree, room, name):
    """Where the sources of a room first speak of a variable."""
    word = re.compile(rf'\b{re.escape(name)}\b')
    for source in tree.c_files:
        if source.room == room:
            found = word.search(source.code)
            if found:
                return source.path, source.line_of(found.start())
    return room, 1


def _archive(tree, room):
    """The static library of a room: that of a room within a folder lies in the same."""
    *folders, _ = room.split('/')
    return tree.build.joinpath(*folders, f'libweft-{room.replace("/", "-")}.a')


def check_globals(tree):
    for room in house.ENGINE_ROOMS:
        has_sources = any(source.room == room and source.path.suffix == '.c'
                          for source in tree.c_files)
        archive = _archive(tree, room)
        if not archive.is_file():
            if has_sources:
                yield room, 1, f'{archive} is not built, so its variables are unproven: run make'
            continue
        for _, name in _mutable_symbols(archive):
            path, line = _declaration(tree, room, name)
            yield path, line, (f'{name} is a mutable variable of file or thread scope: '
                               'engine rooms keep all state in objects passed in')


def _script_symbols(text):
    """{(symbol, version)} that a version script exports; '' in a script without versions."""
    text = re.sub(r'/\*.*?\*/|#[^\n]*', ' ', text, flags=re.S)
    symbols = set()
    for version, body in re.findall(r'((?:\w[\w.]*)?)\s*\{(.*?)\}', text, flags=re.S):
        exported = re.search(r'global\s*:(.*?)(?:local\s*:|$)', body, flags=re.S)
        if exported:
            symbols |= {(name.strip(), version)
                        for name in exported.group(1).split(';') if name.strip()}
    return symbols


def _versions_without_names(text):
    """Those of a script whose names stand in code, since a script can name each but once; a test
    of the room proves them (tests/verbs/test_symbols.py)."""
    text = re.sub(r'/\*.*?\*/|#[^\n]*', ' ', text, flags=re.S)
    return {version for version, body in re.findall(r'(\w[\w.]*)\s*\{(.*?)\}', text, flags=re.S)
            if not body.strip()}


def _library_symbols(library):
    listing = subprocess.run(['nm', '-D', '--defined-only', '--with-symbol-versions',
                              str(library)], capture_output=True, text=True, check=True).stdout
    symbols = set()
    for line in listing.splitlines():
        kind, name = line.split()[-2:]
        if kind != 'A':
            symbols.add(tuple((name.replace('@@', '@') + '@').split('@')[:2]))
    return symbols


def _second_symbols(tree, library_name):
    """{(symbol, version)} that the library exports beside what its version script names."""
    path, version = house.SECOND_VERSIONS.get(library_name, (None, None))
    if path is None or not (tree.root / path).is_file():
        return set()
    text = (tree.root / path).read_text()
    return {(name, version) for name in re.findall(r'\bX\((\w+)\)', text)}


def _line_in_script(text, name):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(rf'(?<!\w){re.escape(name)}(?!\w)', line):
            return number
    return 1


def check_exports(tree):
    for library_name, script_name in house.LIBRARIES.items():
        library = tree.build / 'lib' / library_name
        script = tree.root / script_name
        if not script.is_file():
            if library.is_file():
                yield script_name, 1, f'{library_name} has no version script'
            continue
        if not library.is_file():
            yield script_name, 1, f'{library} is not built, so its symbols are unproven: run make'
            continue
        text = script.read_text()
        wanted = _script_symbols(text) | _second_symbols(tree, library_name)
        nameless = _versions_without_names(text)
        present = {symbol for symbol in _library_symbols(library) if symbol[1] not in nameless}
        for name, version in sorted(wanted - present):
            hint = 'name each symbol' if '*' in name else f'{library_name} does not define it'
            yield script_name, _line_in_script(text, name), f'{name}@{version}: {hint}'
        for name, version in sorted(present - wanted):
            yield script_name, 1, (f'{library_name} exports {name}@{version}, '
                                   'which the version script does not name')


# Who made the units of a program, as the debugging information says.
_LINKER_MADE = 'GNU GIMPLE'
_GCC_MADE = re.compile(r'GNU C\d+ (\d+)')
_LTO_SINCE_GCC = 10  # meson.build asks older ones for none
_LTO_SECTION = ' .gnu.lto_.symtab'


def _members_without_lto(archive):
    """The objects of a static library that hold no code for the linker to optimise."""
    sections = subprocess.run(['objdump', '-h', str(archive)], capture_output=True, text=True,
                              check=True).stdout
    members = list(_MEMBER.finditer(sections))
    ends = [member.start() for member in members[1:]] + [len(sections)]
    for member, end in zip(members, ends):
        if _LTO_SECTION not in sections[member.start():end]:
            yield member.group(1)


def _strings_of_debugging(program):
    return subprocess.run(['readelf', '-p', '.debug_str', str(program)], capture_output=True,
                          text=True, errors='replace', check=True).stdout


def _why_not_linked(says):
    """Why nothing follows from the strings of a program's debugging information, if so."""
    gcc = _GCC_MADE.search(says)
    if not says:
        return 'built without debugging information'
    if _LINKER_MADE not in says and not gcc:
        return 'not built by gcc'
    if gcc and int(gcc[1]) < _LTO_SINCE_GCC:
        return 'built by an old gcc'
    return None


def check_linked(tree):
    """What programs run is optimised when it is linked: each room for it, all of it in the end."""
    programs = [tree.build / name for name in READ]
    for program in filter(lambda path: path.is_file(), programs):
        says = _strings_of_debugging(program)
        tree.not_checked = _why_not_linked(says)
        if tree.not_checked:
            return
        if _LINKER_MADE not in says:
            yield 'meson.build', 1, (f'{program.name} is not optimised when it is linked '
                                     '(-Dlto=false?): what users get is')
    for archive in sorted([*tree.build.glob('libweft-*.a'), *tree.build.glob('*/libweft-*.a')]):
        if archive.name not in house.NOT_FOR_USERS:
            lacking = list(_members_without_lto(archive))
            if lacking:
                yield 'meson.build', 1, (f'{archive.name}: {len(lacking)} objects, {lacking[0]} '
                                         'first, are not compiled with lto_c_args')
