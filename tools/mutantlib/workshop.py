"""A copy of the sources with a build of its own, in which one file at a time is changed."""

import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess

# What the compiler of a C later than ours refuses is no mutant: arguments of other types, say.
COMPILER_FLAGS = '-Werror=int-conversion -Werror=incompatible-pointer-types'


class Broken(Exception):
    """What the tool needs does not work: the unmutated tree does not build, say."""


class Workshop:
    """`folder` holds src (the copy), build, and what is remembered of earlier runs."""

    build_name = 'build'
    # Without debug information: then objects differ only if what they do differs.
    options = ['-Ddebug=false', '-Dwerror=false', f'-Dc_args={COMPILER_FLAGS}']

    def __init__(self, root, folder, jobs, say):
        self.root = root
        self.source = folder / 'src'
        self.build = folder / self.build_name
        self.jobs = jobs
        self.say = say
        self.mutant = None  # what is in the copy now
        self.changed = None  # path and text of the file that it changed
        self.copy()
        self.configure()
        self.objects = self._objects()
        self.headers = {}  # header -> objects made anew when it changes
        self.pristine = {}  # object -> digest of it unmutated

    # --- the copy

    def copy(self):
        """Makes src equal to the user's tree, touching only files that differ."""
        wanted = set(self._user_files())
        digests = {}
        for path in sorted(wanted):
            content = self.content_of(path)
            digests[str(path)] = hashlib.sha256(content).hexdigest()
            ours = self.source / path
            if not ours.is_file() or ours.read_bytes() != content:
                ours.parent.mkdir(parents=True, exist_ok=True)
                ours.unlink(missing_ok=True)
                ours.write_bytes(content)
                shutil.copymode(self.root / path, ours)
        for folder, folders, names in os.walk(self.source):
            folders[:] = [name for name in folders if pathlib.Path(folder, name) != self.build]
            for name in names:
                path = pathlib.Path(folder, name)
                if path.relative_to(self.source) not in wanted:
                    path.unlink()
        self.digests = digests

    def content_of(self, path):
        """What a file of the user's tree is like in the copy."""
        return (self.root / path).read_bytes()

    def id_of(self, test):
        """Of a test's own files, what its folder shares, and how it is called."""
        files = [path for path in self.digests if path.split('/')[0] == 'tests'
                 and not path.endswith('.build') and is_file_of(path, test)]
        words = [word.replace(str(test.build), '') for word in test.command]
        return digest_of([words, {path: self.digests[path] for path in files}])

    def _user_files(self):
        for folder, folders, names in os.walk(self.root):
            here = pathlib.Path(folder).relative_to(self.root)
            if here == pathlib.Path('.'):
                folders[:] = [name for name in folders
                              if name != '.git' and not re.match(r'build(-|$)', name)]
            folders[:] = [name for name in folders if name != '__pycache__']
            for name in names:
                if (pathlib.Path(folder) / name).is_file():
                    yield here / name

    # --- the build

    def configure(self):
        if (self.build / 'build.ninja').is_file():
            self._run('ninja', '-C', self.build, 'build.ninja')  # made anew if it must be
        else:
            # Objects are compared, and many are linked: each holds one kind of code.
            self._run('meson', 'setup', self.build, self.source, '-Dtests=enabled',
                      '-Dlto=false', *self.options)

    def _run(self, *words):
        environment = dict(os.environ)
        if shutil.which('ld.lld'):  # links are most of what a mutant costs
            environment.setdefault('CC_LD', 'lld')
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                                errors='replace', cwd=self.source, env=environment)
        if result.returncode != 0:
            raise Broken(f'{" ".join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr}')
        return result.stdout

    def make(self, targets):
        """Builds targets; False if that is not possible, which is the mutant's fault."""
        return self.failures(*targets) is None

    def failures(self, *targets):
        """Builds what can be built of targets: what was said if that is not all, else None."""
        result = subprocess.run(['ninja', '-C', self.build, '-k', '0', '-j', str(self.jobs),
                                 *targets], capture_output=True, text=True, errors='replace')
        return result.stdout + result.stderr if result.returncode else None

    def _objects(self):
        """Source path -> objects made of it."""
        objects = {}
        for command in json.loads((self.build / 'compile_commands.json').read_text()):
            path = (self.build / command['file']).resolve()
            try:
                path = path.relative_to(self.source.resolve())
            except ValueError:
                continue
            objects.setdefault(str(path), []).append(command['output'])
        return objects

    def _users_of_headers(self):
        """Header path -> objects that are made anew when it changes."""
        users = {}
        target = None
        source = self.source.resolve()
        for line in self._run('ninja', '-C', self.build, '-t', 'deps').splitlines():
            if line and not line.startswith(' '):
                target = line.split(':')[0]
            elif line.strip().endswith('.h'):
                path = (self.build / line.strip()).resolve()
                if path.is_relative_to(source):
                    users.setdefault(str(path.relative_to(source)), []).append(target)
        return users

    # --- what becomes of objects

    def sift(self, mutants):
        """{mutant: 'stillborn' or 'equivalent'} of those in C files that are either: of each file
        one at a time is compiled."""
        of_file = {}
        for mutant in mutants:
            if self.objects.get(str(mutant.path)):
                of_file.setdefault(mutant.path, []).append(mutant)
        self.note_pristine([name for path in of_file for name in self.objects[str(path)]])
        found = {}
        for layer in itertools.zip_longest(*of_file.values()):
            layer = [mutant for mutant in layer if mutant]
            names = [name for mutant in layer for name in self.objects_of(mutant)]
            for name in names:
                (self.build / name).unlink(missing_ok=True)
            texts = {mutant.path: (self.source / mutant.path).read_text() for mutant in layer}
            try:
                for mutant in layer:
                    (self.source / mutant.path).write_text(mutant.text)
                self.make(names)
            finally:
                for path, text in texts.items():
                    (self.source / path).write_text(text)
            for mutant in layer:
                if not all((self.build / name).is_file() for name in self.objects_of(mutant)):
                    found[mutant] = 'stillborn'
                elif not self.differs(mutant):
                    found[mutant] = 'equivalent'
        return found

    def is_equivalent(self, mutant, names):
        """Whether none of these objects differs with a header's mutant; None: not compiled."""
        self.headers[str(mutant.path)] = names
        self.note_pristine(names)
        self.mutate(mutant)
        try:
            return not self.differs(mutant) if self.make(names) else None
        finally:
            self.restore()

    def note_pristine(self, names):
        """Builds these objects unmutated; what they are like is remembered."""
        self.restore()
        if not self.make(names):
            raise Broken('the unmutated tree does not build')
        for name in names:
            self.pristine[name] = _digest(self.build / name)

    # --- one mutant

    def mutate(self, mutant):
        if self.mutant is mutant:
            return
        self.restore()
        self.mutant = mutant
        path = self.source / mutant.path
        self.changed = path, path.read_text()
        path.write_text(mutant.text)

    def restore(self):
        if self.changed:
            path, text = self.changed
            path.write_text(text)
            self.mutant = self.changed = None

    def users_of(self, header):
        """The sources that a header is included by."""
        objects = set(self.headers.get(str(header), []))
        return [path for path, made in self.objects.items() if objects.intersection(made)]

    def objects_of(self, mutant):
        path = str(mutant.path)
        return self.objects.get(path) or self.headers.get(path, [])

    def differs(self, mutant):
        """Whether any object that is made of the mutated file is another than before."""
        return any(_digest(self.build / name) != self.pristine.get(name)
                   for name in self.objects_of(mutant))

    def targets(self):
        """[(name, file below build)] of what meson builds."""
        listed = json.loads(self._run('meson', 'introspect', self.build, '--targets'))
        return [(target['name'],
                 str(pathlib.Path(target['filename'][0]).relative_to(self.build.resolve())))
                for target in listed]

    def tests(self):
        return json.loads(self._run('meson', 'introspect', self.build, '--tests'))


def is_file_of(path, test):
    """Whether a file below tests/ may change what a test does: others' own files do not."""
    parts = path.split('/')
    if len(parts) == 2:
        return True
    if parts[1] != test.folder:
        return False
    own = test.whole.split('/', 1)[1].split('@')[0]
    return not parts[-1].startswith('test_') or parts[-1] in (own, f'test_{own}.c')


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def digest_of(facts):
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
