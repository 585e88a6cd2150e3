#!/usr/bin/env python3
"""tools/bench: what its groups say becomes a table, JSON, and a page with charts and spreads; and
what others had of the machine meanwhile is said."""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / 'bench'))

import others  # noqa: E402

HOSTILE = '<script>alert(1)</script>'
COMPARED = """#!/usr/bin/env python3
import sys
sys.path.insert(0, {bench!r})
from results import compare, emit
compare('group.speed', '4 KiB', 'GB/s', [4e9, 5e9, 6e9], 'memcpy', [9e9, 10e9, 12e9], scale=1e9)
compare('group.time', '64 octets', 'us', [4, 2, 3], {hostile!r}, [6, 9, 12], less_is_better=True)
emit('group.once', 'a run', 'calls', 3, 'before', 6, less_is_better=True)
"""


class Read(html.parser.HTMLParser):
    """What stands in a page: elements with their attributes, and the cells of its tables."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.rows, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == 'tr':
            self.rows.append([])
        elif tag in ('th', 'td'):
            self.rows[-1].append('')

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] in ('th', 'td'):
            self.rows[-1][-1] += data

    def of(self, tag, **wanted):
        return [found for name, found in self.elements
                if name == tag and wanted.items() <= found.items()]


def tree_made(root, group_text):
    """tools/bench in `root`, with one group."""
    for folder in 'tools', 'bench', 'build':
        (root / folder).mkdir()
    shutil.copy(SOURCE / 'tools/bench', root / 'tools')
    for file in 'others.py', 'page.py', 'results.py':
        shutil.copy(SOURCE / 'bench' / file, root / 'bench')
    group = root / 'bench/group.py'
    group.write_text(group_text)
    group.chmod(0o755)


def bench_run(root, *options):
    return subprocess.run([sys.executable, root / 'tools/bench', *options], text=True,
                          capture_output=True)


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            tree_made(root, COMPARED.format(bench=str(root / 'bench'), hostile=HOSTILE))
            done = bench_run(root)
            assert done.returncode == 0, done.stderr
            cls.table = done.stdout
            cls.results = json.loads((root / 'build/bench.json').read_text())
            cls.text = (root / 'build/bench.html').read_text()
            cls.page = Read(cls.text)

    def test_spreads_are_in_the_unit_of_the_median(self):
        speed, time, once = self.results
        self.assertEqual((speed['value'], speed['spread'], speed['baseline_spread']),
                         (5, [4, 6], [9, 12]))
        self.assertEqual((time['ratio'], time['spread']), (3, [2, 4]))
        self.assertNotIn('spread', once)

    def test_each_bench_has_a_chart_beside_its_table(self):
        self.assertEqual([len(self.page.of(tag)) for tag in ('section', 'svg', 'table')], [3, 3, 3])
        self.assertEqual([row[0] for row in self.page.rows if row[0] != 'case'],
                         ['4 KiB', '64 octets', 'a run'])
        self.assertIn(['4 KiB', '5', '4 to 6', 'GB/s', 'memcpy', '10', '9 to 12', '0.50'],
                      self.page.rows)
        self.assertIn(['a run', '3', '–', 'calls', 'before', '6', '–', '2.00'], self.page.rows)

    def test_a_chart_has_the_median_within_its_spread_and_better_to_the_right(self):
        ones = [float(line['x1']) for line in self.page.of('line', **{'class': 'one'})]
        lines = self.page.of('line', **{'class': 'spread'})
        points = [float(point['cx']) for point in self.page.of('circle')]
        for line, point in zip(lines, points):
            self.assertLessEqual(float(line['x1']), point)
            self.assertLessEqual(point, float(line['x2']))
        slower, faster, once = points
        self.assertLess(slower, ones[0])
        self.assertGreater(faster, ones[1])
        self.assertEqual(lines[2]['x1'], lines[2]['x2'])
        self.assertGreater(once, ones[2])

    def test_a_chart_is_told_in_words_too(self):
        labels = [svg['aria-label'] for svg in self.page.of('svg', role='img')]
        self.assertEqual(labels[0], 'group.speed: 4 KiB: 0.50 of memcpy')

    def test_nothing_comes_from_elsewhere_and_words_stay_words(self):
        self.assertFalse(self.page.of('script') + self.page.of('link') + self.page.of('img'))
        self.assertFalse(re.search(r'https?:|url\(|@import', self.text))
        self.assertIn(HOSTILE, [cell for row in self.page.rows for cell in row])
        self.assertTrue(self.page.of('meta', **{'http-equiv': 'Content-Security-Policy'}))


SLEEPER = """#!/usr/bin/env python3
import json, time
time.sleep(1)
print(json.dumps({'bench': 'b', 'case': 'c', 'value': 1, 'unit': 's', 'baseline': 'd',
                  'baseline_value': 1, 'ratio': 1}))
"""


class BusyMachine(unittest.TestCase):
    def test_a_busy_neighbour_is_said_and_with_idle_the_run_has_failed(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            tree_made(root, SLEEPER)
            neighbour = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
            try:
                done = bench_run(root)
                idle = bench_run(root, '--idle')
            finally:
                neighbour.kill()
                neighbour.wait()
            results = json.loads((root / 'build/bench.json').read_text())
            page = (root / 'build/bench.html').read_text()
        self.assertEqual((done.returncode, idle.returncode), (0, 1))
        self.assertIn('other programs had', done.stderr)
        self.assertIn('Other programs had', page)
        self.assertGreater(results[0]['others'], others.LIMIT)

    def test_what_is_ours_is_not_others(self):
        with unittest.mock.patch.multiple(others, of_all=lambda: everybody, of_ours=lambda: ours):
            everybody, ours = 100.0, 40.0
            meanwhile = others.Others()
            everybody, ours = 107.0, 46.0
            with unittest.mock.patch.object(time, 'monotonic', lambda: meanwhile.began[0] + 10):
                self.assertAlmostEqual(meanwhile.share(), 0.1)

    def test_time_of_interrupts_is_nobodys(self):
        with tempfile.NamedTemporaryFile('w') as stat:
            stat.write('cpu  100 20 30 1000 5 400 500 50 7 7\ncpu0 1\n')
            stat.flush()
            with unittest.mock.patch.object(others, 'STAT', pathlib.Path(stat.name)), \
                    unittest.mock.patch('os.sysconf', lambda _: 100):
                self.assertAlmostEqual(others.of_all(), 2.0)


if __name__ == '__main__':
    unittest.main()
