"""What the scripts about the initiator share: a target that runs."""

import contextlib
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import BUILD, Skip, case, expect, expect_error, main, scratch, weft, wire  # noqa: E402

NQN = 'nqn.2014-08.org.nvmexpress:uuid:00000000-1111-2222-3333-444444444444'
SIZE = 8 << 20


@contextlib.contextmanager
def target(*words):
    """A target that runs; its port. The process is target.process."""
    process = subprocess.Popen([BUILD / 'tests/initiator/serve_target', *words],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    target.process = process
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def uri(port):
    return f'nvme+rdma://127.0.0.1:{port}/{NQN}'


__all__ = ['BUILD', 'NQN', 'SIZE', 'Skip', 'case', 'expect', 'expect_error', 'main', 'scratch',
           'target', 'uri', 'weft', 'wire']
