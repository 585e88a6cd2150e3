#!/usr/bin/env python3
"""gloo's collectives (those of PyTorch on processors) over its own use of verbs: gloo_ranks.cc, a
process for each rank, on both devices; every sum is compared."""

import pathlib
import shutil
import subprocess
import tempfile
import time

import judge

SOURCE = pathlib.Path(__file__).with_name('gloo_ranks.cc')
HEADER = pathlib.Path('/usr/include/gloo/transport/ibverbs/device.h')
LIMIT = 60


def compiled(program):
    """Why there is no program: what is missing, or what the compiler says."""
    if shutil.which('g++') is None or not HEADER.exists():
        return 'no g++ or no libgloo-dev'
    made = subprocess.run(['g++', '-O1', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE,
                           '-lgloo', '-libverbs', '-lpthread'], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return ''


def faults_of(side, program, ranks, device, gid_index):
    """What is wrong with the words of `ranks` processes that meet in a folder of their own."""
    env = {'WEFT_ROCE_PORT': str(judge.free_port())}
    meeting = pathlib.Path(tempfile.mkdtemp(dir=side.scratch))
    meeting.chmod(0o777)
    started = [side.start([program, str(rank), str(ranks), str(meeting), device, str(gid_index)],
                          env, LIMIT) for rank in range(ranks)]
    try:
        faults = []
        for rank, process in enumerate(started):
            faults += judge.end_of(f'rank {rank}', process, time.monotonic() + LIMIT)
            if f'rank {rank} of {ranks}: all sums are right' not in process.output():
                faults += process.output().splitlines()[-5:]
        return faults
    finally:
        for process in started:
            process.stop()


def main():
    options = judge.argument_parser(__doc__).parse_args()
    tap = judge.Tap()
    with tempfile.TemporaryDirectory(prefix='weft-gloo.') as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        program = folder / 'gloo_ranks'
        missing = compiled(program)
        if missing:
            judge.skip_all(missing)
        with judge.weft_side(link=options.link) as side:
            for device in 'weft0', 'weft_roce0':
                for ranks in 2, 4:
                    case = f'gloo: {ranks} ranks on {device}'
                    if options.only in case:
                        tap.report(case, faults_of(side, program, ranks, device, 0))
    return tap.finish()


if __name__ == '__main__':
    raise SystemExit(main())
