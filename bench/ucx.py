"""Both ends of ucx_perftest on this host, one beside the other."""

import subprocess

from results import environment


def last_line(port, test, size, count, words=(), **settings):
    """What the client says last, in words: medians, and what holds of the whole run. `words` stand
    before the program."""
    command = [*words, 'ucx_perftest', '-p', str(port)]
    client = [*command, '127.0.0.1', '-t', test, '-s', str(size), '-n', str(count), '-f']
    of_both = environment(**settings)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=of_both) as server:
        try:
            for _ in range(20):
                run = subprocess.run(client, text=True, stdout=subprocess.PIPE, timeout=60,
                                     stderr=subprocess.PIPE, env=of_both, check=False)
                if 'Connection refused' not in run.stdout + run.stderr:
                    break
            return [line.split() for line in run.stdout.splitlines() if line.strip()][-1]
        finally:
            server.kill()
