"""The source tree as the checks see it: which files there are, and C without comments."""

import pathlib
import re

from . import house

SKIPPED_DIRS = {'.git', '__pycache__', 'corpus'}
TEXT_SUFFIXES = {'.c', '.h', '.py', '.sh', '.build', '.map', '.txt', '.bash', '.fish',
                 '.zsh'}

# A comment, a string or a character: whichever starts first hides the others.
_TOKEN = re.compile(r'//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_DIRECTIVE = re.compile(r'^[ \t]*#(?:\\\n|[^\n])*', re.M)


def _blank(text):
    """The same shape in spaces: columns and line numbers stay."""
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text):
    def replace(match):
        token = match.group()
        return _blank(token) if token.startswith('/') else token
    return _TOKEN.sub(replace, text)


def code_only(text):
    """C without comments, the insides of strings, and preprocessor lines."""
    def replace(match):
        token = match.group()
        if token.startswith('/'):
            return _blank(token)
        return token[0] + _blank(token[1:-1]) + token[-1]
    stripped = _TOKEN.sub(replace, text)
    return _DIRECTIVE.sub(lambda match: _blank(match.group()), stripped)


def room_of(path):
    """The room of a file: the innermost of its folders that is one, else its first folder."""
    folders = path.parts[:-1]
    for count in range(len(folders), 0, -1):
        if '/'.join(folders[:count]) in house.ROOMS:
            return '/'.join(folders[:count])
    return folders[0] if folders else ''


class Source:
    """One file. `path` is relative to the root, `room` that of room_of ('' at the root)."""

    def __init__(self, root, path):
        self.path = path
        self.room = room_of(path)
        self.text = (root / path).read_text(encoding='utf-8', errors='replace')
        self.lines = self.text.split('\n')
        if self.lines and self.lines[-1] == '':
            self.lines.pop()
        self._code = None

    @property
    def is_c(self):
        return self.path.suffix in ('.c', '.h')

    @property
    def code(self):
        if self._code is None:
            self._code = code_only(self.text)
        return self._code

    def line_of(self, offset):
        return self.text.count('\n', 0, offset) + 1


class Tree:
    """All text files under a root; hidden and build folders are not part of it."""

    def __init__(self, root, build=None):
        self.root = pathlib.Path(root)
        self.build = pathlib.Path(build) if build else self.root / 'build'
        self.not_checked = None  # why the running check could not run here
        self.files = [Source(self.root, path) for path in sorted(self._walk(self.root))]
        self.c_files = [source for source in self.files if source.is_c]

    def _walk(self, folder):
        for entry in folder.iterdir():
            name = entry.name
            if entry.is_symlink() or name in SKIPPED_DIRS:
                continue
            if entry.is_dir():
                is_build = folder == self.root and (name == 'build' or name.startswith('build-'))
                if not is_build and (not name.startswith('.') or name == '.ci'):
                    yield from self._walk(entry)
            elif entry.suffix in TEXT_SUFFIXES or self._is_script(entry):
                yield entry.relative_to(self.root)

    @staticmethod
    def _is_script(path):
        if path.name == 'Makefile':
            return True
        with path.open('rb') as file:
            return not path.suffix and file.read(2) == b'#!'


class Function:
    """A function body found in C code: its name, first and last line, and its text's extent."""

    def __init__(self, name, first_line, last_line, start, end):
        self.name = name
        self.first_line = first_line
        self.last_line = last_line
        self.start = start
        self.end = end


_NAME = re.compile(r'([A-Za-z_]\w*)\s*\(')
_NOT_A_NAME = {'__attribute__', '_Static_assert', '_Alignas', '__asm__', 'typeof', '__typeof__'}


def _function_name(head):
    """The function that `head`, the text before a brace at file level, defines; None if none."""
    without_attributes = re.sub(r'__attribute__\s*\(\(.*?\)\)', '', head, flags=re.S)
    if '(' not in without_attributes or '=' in without_attributes.split('(')[0]:
        return None
    if not without_attributes.rstrip().endswith(')'):
        return None
    for match in _NAME.finditer(without_attributes):
        if match.group(1) not in _NOT_A_NAME:
            return match.group(1)
    return None


def functions(source):
    """Every function definition of a C file, in order."""
    code = source.code
    depth = 0
    head_start = 0
    name = None
    start = 0
    for match in re.finditer(r'[{};]', code):
        char, at = match.group(), match.start()
        if char == '{':
            if depth == 0:
                name = _function_name(code[head_start:at])
                start = at
            depth += 1
            continue
        if char == '}':
            depth = max(0, depth - 1)
        if depth == 0:
            if char == '}' and name:
                head = code[head_start:start]
                first = head_start + len(head) - len(head.lstrip())
                yield Function(name, source.line_of(first), source.line_of(at), start, at)
            name = None
            head_start = at + 1
