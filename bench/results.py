"""What the groups of benchmarks share: runs of the measured programs in turns, and a result's line
(the top of tools/bench says what stands in it).

A figure is the median of alternating runs, ours and the baseline's in turn, since the speed of a
machine drifts; the spread, the least and the greatest of them, stands beside it.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

BUILD = pathlib.Path(os.environ['WEFT_BUILD_DIR'])


def pairs_wanted(default):
    """How many runs of each kind a median is made of."""
    return int(os.environ.get('WEFT_BENCH_PAIRS', default))


def seconds_wanted(default):
    """How long one run measures, as a program is told."""
    return os.environ.get('WEFT_BENCH_SECONDS', default)


def is_wanted(bench, case):
    """WEFT_BENCH_CASES: a regular expression that `BENCH CASE` is to have; else all are."""
    return re.search(os.environ.get('WEFT_BENCH_CASES', ''), f'{bench} {case}') is not None


def environment(**settings):
    return {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'lib'), **settings}


def measured(program, *words, **settings):
    """What a program of bench/ says, run with these words under these settings."""
    output = subprocess.run([BUILD / 'bench' / program, *map(str, words)], text=True,
                            stdout=subprocess.PIPE, timeout=90, check=True,
                            env=environment(**settings)).stdout
    return json.loads(output)


def alternating(count, measures):
    """{name: [result, ...]}: each of the measures {name: callable} once, and all of them again."""
    results = {name: [] for name in measures}
    for _ in range(count):
        for name, measure in measures.items():
            results[name].append(measure())
    return results


def column(results, key):
    return [result[key] for result in results]


def emit(bench, case, unit, value, baseline, baseline_value, less_is_better=False, **spreads):
    """A result's line. `spreads`: `spread` and `baseline_spread`, [least, greatest] in the unit."""
    ratio = baseline_value / value if less_is_better else value / baseline_value
    print(json.dumps({'bench': bench, 'case': case, 'value': value, 'unit': unit,
                      'baseline': baseline, 'baseline_value': baseline_value, 'ratio': ratio,
                      'less_is_better': less_is_better, **spreads}), flush=True)


def spread_of(figures, scale=1.0):
    return [min(figures) / scale, max(figures) / scale]


def note(*words):
    """For who watches."""
    print(*words, file=sys.stderr)


def compare(bench, case, unit, ours, baseline, theirs, scale=1.0, less_is_better=False):
    """The line of two columns of figures, by their medians; `scale`: this many of them are one
    unit."""
    value, base = statistics.median(ours) / scale, statistics.median(theirs) / scale
    emit(bench, case, unit, value, baseline, base, less_is_better,
         spread=spread_of(ours, scale), baseline_spread=spread_of(theirs, scale))
    ratio = base / value if less_is_better else value / base
    note(f'{bench} {case}: {value:.4g} {unit}, {ratio:.2f} of {baseline}'
         f' (spread {min(ours) / scale:.4g} to {max(ours) / scale:.4g})')
