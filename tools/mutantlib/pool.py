"""Workers that run a program for each of many mutants (worker.py), some at a time."""

import json
import os
import pathlib
import queue
import subprocess
import sys
import threading

from .run import confinement

TOOLS = pathlib.Path(__file__).resolve().parents[1]


class Worker:
    """A process that runs what it is told."""

    def __init__(self, confined):
        self.process = subprocess.Popen(
            [*(confined or []), sys.executable, '-B', '-m', 'mutantlib.worker'], text=True,
            env={**os.environ, 'PYTHONPATH': str(TOOLS), 'MUTANT': '0'}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, order):
        """{how, seconds, waited_s, cpu_s}"""
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.terminate()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Pool:
    """So many of them."""

    def __init__(self, count):
        confined = confinement()
        self.workers = [Worker(confined) for _ in range(count)]

    def ends(self, orders):
        """[(order, what became of it)] as they end."""
        waiting, ended = queue.SimpleQueue(), queue.SimpleQueue()
        for order in orders:
            waiting.put(order)
        for worker in self.workers:
            threading.Thread(target=_work, args=(worker, waiting, ended), daemon=True).start()
        for _ in orders:
            order, said = ended.get()
            if isinstance(said, Exception):
                raise said
            yield order, said

    def end(self):
        for worker in self.workers:
            worker.end()


def _work(worker, waiting, ended):
    while True:
        try:
            order = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            ended.put((order, worker.run(order)))
        except (OSError, ValueError) as error:
            ended.put((order, error))
            return
