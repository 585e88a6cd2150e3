"""A build of the user's, and what is made anew beside it: a file's object, and the program, or the
shared library of a program, that has it.
"""

import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

from .workshop import Broken

LINKERS = 'c_LINKER', 'c_LINKER_RSP'  # meson's rules
# Links are most of what a program costs. This linker reads no objects that are to be optimised.
SWIFT_LINKER = ['-fuse-ld=lld'] if shutil.which('ld.lld') else []


class Refused(Exception):
    """What the compiler said."""


class Build:
    """The user's, and what is made anew beside it."""

    def __init__(self, path):
        self.path = path
        # As deep as the programs are, whose libraries are found from there.
        self.scratch = tempfile.TemporaryDirectory(prefix='mutants-', dir=path)
        self.folder = pathlib.Path(self.scratch.name)
        self.folder.chmod(0o755)  # some tests go on as another user
        self.tests = {facts['name']: facts for facts in json.loads(
            self._said('meson', 'introspect', path, '--tests'))
            if pathlib.Path(facts['cmd'][0]).is_relative_to(path)}
        self.commands = json.loads((path / 'compile_commands.json').read_text())
        self.links = {command['output']: shlex.split(command['command']) for command in json.loads(
            self._said('ninja', '-C', path, '-t', 'compdb', '-x', *LINKERS))}
        self.made = set()  # what is known to be of the tree as it is

    def _said(self, *words):
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                                errors='replace', cwd=self.path)
        if result.returncode != 0:
            raise Broken(f'{" ".join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr}')
        return result.stdout

    def facts_of(self, name):
        """Of a test by its name, node/ring or node/test_ring."""
        facts = self.tests.get(name.replace('/test_', '/'))
        if not facts:
            raise Broken(f'{name} is no program among the tests')
        return facts

    def path_of(self, name):
        """Of a test's program, from the build."""
        return str(pathlib.Path(self.facts_of(name)['cmd'][0]).relative_to(self.path))

    def make(self, names):
        """Builds what these tests' programs are linked of, and not these."""
        wanted = {word for name in names for word in self.link_of(name)[1:]
                  if _is_built(word)} - self.made - {self.path_of(name) for name in names}
        if wanted:
            self._said('ninja', '-C', self.path, *wanted)
            self.made |= wanted

    def link_of(self, name):
        """The words that link a test's program."""
        return self.links[self.path_of(name)]

    def library_of(self, link, outputs):
        """The shared library that these words name and that has one of these objects, or None."""
        return next((word for word in link if '-shared' in self.links.get(word, [])
                     and not outputs.isdisjoint(self.links[word])), None)

    def commands_of(self, path):
        """All that compile a file: a test may have an object of its own."""
        found = [command for command in self.commands
                 if self._resolved(command['file']) == path.resolve()]
        if not found:
            raise Broken(f'{path} is not compiled here')
        return found

    @functools.cache
    def _resolved(self, name):
        return (self.path / name).resolve()

    def compiler_of(self, path, link):
        """(words, object): the command for a file and what it makes, that of a program's own if it
        has one, or else of its library's."""
        found = self.commands_of(path)
        library = self.library_of(link, {command['output'] for command in found})
        for words in link, self.links.get(library, []):
            for command in found:
                if command['output'] in words:
                    return shlex.split(command['command']), command['output']
        return shlex.split(found[0]['command']), found[0]['output']

    def objects_of(self, path):
        """All that are made of a file."""
        return {self.path / command['output'] for command in self.commands_of(path)}

    def compile(self, command, text, name, *more):
        """The object of a file's command, if the file had this text: read from no file, whose name
        would stand in the object. Nothing is left for the linker to optimise: such objects hold
        words by chance, so none is like another."""
        made = self.folder / f'{name}.o'
        words = []
        for word in command[:command.index('-c')]:
            if words[-1:] == ['-o']:
                words[-1:] = []
            elif words[-1:] in (['-MQ'], ['-MF']):
                words[-1:] = []
            elif word != '-MD':
                words.append(word)
        words += ['-Wno-error', '-fno-lto', *more, '-o', made, '-c', '-x', 'c', '-']
        result = subprocess.run(words, cwd=self.path, input=text, capture_output=True, text=True,
                                errors='replace')
        if result.returncode != 0:
            raise Refused(result.stderr)
        return made

    def link(self, link, instead_of, made, name):
        """The program with that object, its own or a library's."""
        library = self.library_of(link, {instead_of})
        if instead_of not in link and library:
            return self._linked(self._with_library(link, library, instead_of, made, name), name)
        words = list(link)
        if instead_of in words:
            words[words.index(instead_of)] = str(made)
        else:
            words.insert(next(at for at, word in enumerate(words) if word.endswith('.c.o')),
                         str(made))
        return self._linked(words, name)

    def _with_library(self, link, library, instead_of, made, name):
        """The words that link a program with a library that has that object. It is found before
        the build's, wherever the environment says that those are (an RPATH), and needed even by a
        program that only its other libraries call it for."""
        folder = f'{name}.lib'
        (self.folder / folder).mkdir(exist_ok=True)
        changed = self._linked(
            [str(made) if word == instead_of else word for word in self.links[library]]
            + [f'-Wl,-rpath,{self.path / pathlib.Path(library).parent}'],
            f'{folder}/{pathlib.Path(library).name}')
        at = link.index(library)
        return [link[0], f'-Wl,--disable-new-dtags,-rpath,$ORIGIN/{folder}', *link[1:at],
                '-Wl,--push-state,--no-as-needed', str(changed), '-Wl,--pop-state',
                *link[at + 1:]]

    def _linked(self, words, name):
        """What these words link, by another name."""
        made = self.folder / name
        words = list(words)
        words[words.index('-o') + 1] = str(made)
        if not any(word.startswith('-flto') for word in words):
            words += SWIFT_LINKER
        self._said(*words)
        return made


def _is_built(word):
    """Whether a word of a link names an object or a library of this build."""
    return not word.startswith(('-', '/')) and re.search(r'\.(o|a|so[.\d]*)$', word)
