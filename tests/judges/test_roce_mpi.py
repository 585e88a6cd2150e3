#!/usr/bin/env python3
"""MPI over UCX on the RoCE device: mpi_exchange.c, compiled with the distribution's wrappers and
run by its launchers, compares every octet that ranks exchange."""

import atexit
import pathlib
import re
import shutil
import subprocess
import tempfile

import judge
from judge import Case

SOURCE = pathlib.Path(__file__).with_name('mpi_exchange.c')
# No other transport, so that nothing crosses beside weft.
UCX = {'WEFT_WIRE': 'roce', 'UCX_TLS': 'rc_v,ud_v,self', 'UCX_NET_DEVICES': 'weft_roce0:1'}
OPEN_MPI = {
    'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
    'OMPI_MCA_pml': 'ucx', 'OMPI_MCA_osc': 'ucx', 'OMPI_MCA_rmaps_base_oversubscribe': '1',
}
MPICH = {'MPIR_CVAR_NOLOCAL': '1'}  # else ranks of one host share memory, beside UCX


def compiled(wrapper, program):
    """Why there is no program: the wrapper is missing, or what it says."""
    if shutil.which(wrapper) is None:
        return f'no {wrapper}'
    made = subprocess.run([wrapper, '-O1', '-o', program, SOURCE], capture_output=True, text=True)
    return made.stderr.strip().partition('\n')[0]


def exchange(folder, wrapper, launcher, ranks, env):
    program = folder / f'mpi_exchange.{launcher}'

    def check(outcome):
        match = re.search(rf'^{ranks} ranks: (\d+) octets compared$', outcome.client, re.M)
        if match is None:
            return 'no word of what was compared'
        return None if int(match[1]) > ranks << 20 else f'{match[1]} octets compared'
    return Case(f'{launcher}: {ranks} ranks', [launcher, '-n', ranks, program], check=check,
                env={**UCX, **env}, cannot_run=lambda: compiled(wrapper, program))


def cases():
    folder = pathlib.Path(tempfile.mkdtemp(prefix='weft-mpi.'))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder)
    for ranks in 2, 4:
        yield exchange(folder, 'mpicc.openmpi', 'mpirun.openmpi', ranks, OPEN_MPI)
        yield exchange(folder, 'mpicc.mpich', 'mpirun.mpich', ranks, MPICH)


if __name__ == '__main__':
    judge.run_cases(__doc__, cases)
