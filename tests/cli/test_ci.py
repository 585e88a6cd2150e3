#!/usr/bin/env python3
"""The steps of CI systems: what they run here, line by line, and a program by its plain name."""

import json
import os
import pathlib
import shutil
import subprocess

import ci_jobs
from cases import BUILD, SOURCE, Skip, case, main, scratch


def run(script, folder, **variables):
    environment = {'PATH': os.environ['PATH'], **variables}
    return subprocess.run(['sh', '-eu', '-c', script], cwd=folder, env=environment, text=True,
                          capture_output=True, timeout=120, check=False)


def tree(folder):
    """A tree with what was built in it, as a job has one."""
    place = pathlib.Path(folder, 'weft')
    place.mkdir()
    for name in ('tools', 'action.yml', '.gitlab'):
        (place / name).symlink_to(SOURCE / name)
    (place / 'build').symlink_to(BUILD)
    return place


def kept_counters(folder):
    return [json.loads(line) for file in pathlib.Path(folder).glob('counters.*.json')
            for line in file.read_text().splitlines()]


def ping(folder, **variables):
    """rping by its plain name, both ends, as a job's own step runs it."""
    if shutil.which('rping') is None:
        raise Skip('no program rping')
    script = '''
        rping -s -a 127.0.0.1 -p 17471 -C 3 & server=$!
        for i in 1 2 3 4 5 6 7 8 9 10; do
            rping -c -a 127.0.0.1 -p 17471 -C 3 && break
            sleep 0.2
        done
        wait $server'''
    result = run(script, folder, **variables)
    assert result.returncode == 0, result.stderr


def action(folder, **inputs):
    """Runs the action; the environment of the steps behind it, and its outputs."""
    script, variables = ci_jobs.action_step(**inputs)
    files = {name: str(pathlib.Path(folder, name)) for name in ('GITHUB_ENV', 'GITHUB_OUTPUT')}
    result = run(script, folder, GITHUB_ACTION_PATH=str(tree(folder)), RUNNER_TEMP=str(folder),
                 **files, **variables)
    assert result.returncode == 0, result.stderr
    lines = {name: pathlib.Path(file).read_text().splitlines() for name, file in files.items()}
    return (result.stdout, dict(line.split('=', 1) for line in lines['GITHUB_ENV']),
            dict(line.split('=', 1) for line in lines['GITHUB_OUTPUT']))


@case
def the_action_makes_later_steps_run_on_weft():
    with scratch() as folder:
        said, environment, outputs = action(folder)
        assert not shutil.which('ibv_devinfo') or 'weft0' in said, said
        ping(folder, **environment)
        assert len(kept_counters(outputs['kept'])) >= 2


@case
def the_action_has_wire_fault_and_capture():
    with scratch() as folder:
        said, environment, outputs = action(folder, wire='iwarp', fault='duplicate=100%',
                                            capture='yes', options='--crc=off')
        assert 'weft_roce0' not in said
        assert environment['WEFT_CRC'] == 'off'
        ping(folder, **environment)
        assert list(pathlib.Path(outputs['kept']).glob('capture.*.pcap'))
        assert all(one['weft0']['packets']['faults.duplicated'] > 0
                   for one in kept_counters(outputs['kept']))


@case
def the_gitlab_job_runs_on_weft():
    with scratch() as folder:
        script, variables = ci_jobs.gitlab_job()
        tree(folder)
        result = run(script + 'ibv_devices', folder, **variables)
        assert result.returncode == 0 and 'weft0' in result.stdout, result.stderr
        assert pathlib.Path(folder, 'weft-kept').is_dir()


@case
def without_a_file_nothing_is_done():
    with scratch() as folder:
        result = run('"$CI" --format=shell', folder, CI=str(SOURCE / 'tools/ci'))
        assert result.returncode == 2 and '--into' in result.stderr
        assert list(pathlib.Path(folder).iterdir()) == []


main()
