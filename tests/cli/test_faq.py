#!/usr/bin/env python3
"""The commands of docs/faq.md do what they are there for: each question's are run as they stand."""

import os
import re
import shutil
import subprocess

from cases import SOURCE, WEFT, Skip, case, main, scratch, skip_all, tapnet

FAQ = (SOURCE / 'docs/faq.md').read_text()
# A client starts when somebody listens, as a reader would have it: by the kernel's list of
# TCP, or of UDP at rping's port.
PRELUDE = '''listening() {
    grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6 || grep -q ':1C06 ' /proc/net/udp /proc/net/udp6
}
'''
AWAIT = 'until listening; do sleep 0.02; done\n'


def questions():
    """(question, commands) of each that has some."""
    for part in re.split(r'^###? ', FAQ, flags=re.M)[1:]:
        title, _, body = part.partition('\n')
        lines = re.findall(r'^    (.*)$', body, re.M)
        if lines:
            yield title, lines


def missing_programs(lines):
    """Those that the commands start and this machine does not have."""
    words = re.findall(r'\b(?:ibv_\w+|rping|rstream)\b', ' '.join(lines))
    return [word for word in words if shutil.which(word) is None]


def run(lines):
    script = ''.join(f'{line}\n{AWAIT if line.endswith("&") else ""}' for line in lines)
    with scratch() as folder:
        os.symlink(WEFT, f'{folder}/weft')
        os.mkdir(f'{folder}/run', 0o700)
        environment = {'PATH': f'{folder}:{os.environ["PATH"]}',
                       'WEFT_RUNTIME_DIR': f'{folder}/run'}
        return subprocess.run(['sh', '-ec', f'{PRELUDE}{script}wait'], cwd=folder, text=True,
                              env=environment, capture_output=True, timeout=60, check=False)


def answer(title, lines):
    """A case of its own for each question."""
    def ask():
        missing = missing_programs(lines)
        if missing:
            raise Skip(f'no program {missing[0]}')
        result = run(lines)
        assert result.returncode == 0, f'{lines}: {result.stdout}{result.stderr}'
    ask.__name__ = re.sub(r'\W+', '_', title).strip('_').lower()
    return ask


@case
def every_question_has_an_answer_and_every_page_is_there():
    for part in re.split(r'^### ', FAQ, flags=re.M)[1:]:
        body = re.sub(r'^    .*$', '', part.partition('\n')[2], flags=re.M)
        assert 2 <= len(re.split(r'^## ', body, flags=re.M)[0].strip().splitlines()) <= 4, part
    for page in re.findall(r'\]\((\w[\w.-]*\.md)', FAQ):
        assert (SOURCE / 'docs' / page).is_file(), page
    for name, section in re.findall(r'(weft[\w-]*)\((\d)\)', FAQ):
        assert (SOURCE / 'man' / f'{name}.{section}').is_file(), name


try:
    tapnet.enter_namespace('ip', 'link', 'set', 'lo', 'up')
except tapnet.NotHere as why:
    skip_all(str(why))
tapnet.ip('link', 'set', 'lo', 'up')
for question in questions():
    case(answer(*question))
main()
