#!/usr/bin/env python3
"""tools/pairs: what its interval promises, and that a build that is slower is said to be."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PAIRS = pathlib.Path(__file__).resolve().parents[2] / 'tools/pairs'

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader('pairs', str(PAIRS))
pairs = importlib.util.module_from_spec(importlib.util.spec_from_loader('pairs', loader))
loader.exec_module(pairs)

# Says another figure at each run: so much as the file beside it says, in turn.
PROGRAM = """#!/bin/sh
figures=$(dirname "$0")/figures
figure=$(head -1 "$figures"); sed -i 1d "$figures"
printf '{"octets_per_s": %s, "ns_per_segment": %s}\\n' "$figure" "$figure"
"""


class Interval(unittest.TestCase):
    def test_of_21_pairs_is_from_the_6th_to_the_16th(self):
        # P(at most 5 of 21 below the median) = 0.0133: twice that is below 0.05, with 6 it is not.
        self.assertEqual(pairs.interval(list(range(1, 22))[::-1]), (6, 16))

    def test_of_too_few_pairs_is_from_end_to_end(self):
        self.assertEqual(pairs.interval([3, 1, 2]), (1, 3))
        self.assertEqual(pairs.interval([4]), (4, 4))


class Pairs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name, program, figures):
        path = self.folder / name / 'bench' / program
        path.parent.mkdir(parents=True)
        path.write_text(PROGRAM)
        path.chmod(0o755)
        (path.parent / 'figures').write_text('\n'.join(map(str, figures)) + '\n')
        return self.folder / name

    def run_pairs(self, own, other, *words):
        return subprocess.run([PAIRS, '--build', own, '--against', other, '--json', *words],
                              text=True, capture_output=True)

    def test_compares_what_ran_beside_each_other(self):
        # The machine becomes ten times slower after the first pair, for both.
        own = self.build('own', 'bench-reads', (50, 5, 5))
        other = self.build('other', 'bench-reads', (100, 10, 10))
        run = self.run_pairs(own, other, '--count', '3', 'reads.alone')
        row, = json.loads(run.stdout)
        self.assertEqual((row['ratio'], row['low'], row['high'], row['pairs']), (.5, .5, .5, 3))

    def test_less_time_is_faster(self):
        own = self.build('own', 'bench-holes', (20,))
        other = self.build('other', 'bench-holes', (40,))
        row, = json.loads(self.run_pairs(own, other, '--count', '1', 'holes.join').stdout)
        self.assertEqual(row['ratio'], 2)

    def test_names_the_program_that_cannot_run(self):
        run = self.run_pairs(self.folder, self.folder, 'reads.alone')
        self.assertEqual(run.returncode, 1)
        self.assertIn('bench/bench-reads', run.stderr)

    def test_names_the_cases_where_a_word_names_none(self):
        run = self.run_pairs(self.folder, self.folder, 'nothing')
        self.assertEqual(run.returncode, 2)
        self.assertIn('no case or group is called nothing; there are: rnic.', run.stderr)


if __name__ == '__main__':
    unittest.main()
