"""Pages whose commands are run as they stand: what is indented by four is a command, and one that
ends with & is a server, which the next one waits for."""

import contextlib
import os
import re
import shutil
import signal
import subprocess

from cases import WEFT, Skip, scratch, skip_all, tapnet

# A client starts when somebody listens, as a reader would have it: by the kernel's list of
# TCP, or of UDP at rping's port.
PRELUDE = '''listening() {
    grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6 || grep -q ':1C06 ' /proc/net/udp /proc/net/udp6
}
'''
AWAIT = 'until listening; do sleep 0.02; done\n'
PROGRAMS = r'\b(?:ibv_\w+|rping|rstream|ucx_\w+|mpi(?:run|cc)\.\w+|qemu-img|setpriv)\b'
LIMIT_S = 60


def enter_network():
    """One of the script's own, where nobody else listens."""
    try:
        tapnet.enter_namespace('ip', 'link', 'set', 'lo', 'up')
    except tapnet.NotHere as why:
        skip_all(str(why))
    tapnet.ip('link', 'set', 'lo', 'up')


def sections(page):
    """(heading, commands) of each that has some."""
    for part in re.split(r'^###? ', page, flags=re.M)[1:]:
        heading, _, body = part.partition('\n')
        lines = re.findall(r'^    (.*)$', body, re.M)
        if lines:
            yield heading, lines


def missing_programs(lines):
    """Those that the commands start and this machine does not have."""
    return [word for word in re.findall(PROGRAMS, ' '.join(lines)) if shutil.which(word) is None]


def run(lines):
    script = ''.join(f'{line}\n{AWAIT if line.endswith("&") else ""}' for line in lines)
    with scratch() as folder:
        os.symlink(WEFT, f'{folder}/weft')
        os.mkdir(f'{folder}/run', 0o700)
        environment = {'PATH': f'{folder}:{os.environ["PATH"]}',
                       'WEFT_RUNTIME_DIR': f'{folder}/run'}
        shell = subprocess.Popen(['sh', '-ec', f'{PRELUDE}{script}wait'], cwd=folder, text=True,
                                 env=environment, start_new_session=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said, _ = shell.communicate(timeout=LIMIT_S)
            return shell.returncode, said
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # a server that is left listens for the next


def case_of(heading, lines):
    """A case for one section, named after it."""
    def commands_run():
        missing = missing_programs(lines)
        if missing:
            raise Skip(f'no program {missing[0]}')
        status, said = run(lines)
        assert status == 0, f'{lines}: {said}'
    commands_run.__name__ = re.sub(r'\W+', '_', heading).strip('_').lower()
    return commands_run
