"""The results of tools/bench as a page: a chart of each bench, with spreads, beside its table.

A point is a ratio to the baseline, more being better, on a scale of doublings; its line goes from
the least to the greatest run, and the band around 1 is what the baseline's own runs came to. Where
there is no spread, there was one figure only. Nothing is taken from elsewhere, and no script runs.
"""

import html
import math

from others import LIMIT

WIDTH, ROW, LEFT, TOP = 420, 26, 8, 24  # of a chart, in units of its own
MARGIN = 1.15  # beyond the outermost, so that ends are seen
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #16181d; --faint: #545b67;
        --line: #c9ced6; --ours: #1c4fa1; --band: #e3e7ee; }
@media (prefers-color-scheme: dark) { :root { --ground: #14161a; --text: #e8eaee;
        --faint: #a5adba; --line: #454b55; --ours: #8ab4f8; --band: #2a2f38; } }
body { margin: 0 auto; padding: 1em; max-width: 90em; background: var(--ground); color: var(--text);
       font: 15px/1.4 Helvetica, Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 1.2em; } h2 { font-size: 1.05em; margin: 0 0 .4em; }
p, caption { color: var(--faint); text-align: left; }
section { display: flex; flex-wrap: wrap; gap: 1em; margin: 0 0 2em; }
section > * { flex: 1 1 24em; min-width: 0; } h2 { flex-basis: 100%; }
.scroll { overflow-x: auto; } figure { margin: 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .6em; border-top: 1px solid var(--line); text-align: right;
         white-space: nowrap; } th[scope=row], thead th:first-child { text-align: left; }
svg { display: block; width: 100%; max-width: 40em; height: auto; font-size: 11px; }
text { fill: var(--text); } .tick { stroke: var(--line); } .one { stroke: var(--faint); }
.band { fill: var(--band); } .spread { stroke: var(--ours); stroke-width: 2; }
.median { fill: var(--ours); }
:focus-visible { outline: 2px solid var(--ours); }
"""


def ratios(result):
    """(least, median, greatest) of ours, and (least, greatest) of the baseline's, all beside the
    baseline's median, more being better."""
    base, less = result['baseline_value'], result.get('less_is_better', False)

    def beside(value):
        return base / value if less else value / base
    ours = sorted(map(beside, result.get('spread') or [result['value']]))
    theirs = sorted(map(beside, result.get('baseline_spread') or [base]))
    return (ours[0], result['ratio'], ours[-1]), (theirs[0], theirs[-1])


def ticks(low, high):
    """Powers of two within, so few that their names have room."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = max(1, math.ceil((last - first) / 8))
    return [2.0 ** power for power in range(first - first % step, last + 1, step)]


def chart(bench, results):
    rows = [(result, *ratios(result)) for result in results]
    numbers = [number for _, ours, theirs in rows for number in (*ours, *theirs)]
    low, high = min(numbers) / MARGIN, max(numbers) * MARGIN

    def x(ratio):
        return LEFT + (WIDTH - 2 * LEFT) * math.log(ratio / low) / math.log(high / low)
    height = TOP + ROW * len(rows)
    parts = []
    for tick in ticks(low, high):
        if low <= tick <= high:
            parts.append(f'<line class="{"one" if tick == 1 else "tick"}" x1="{x(tick):.1f}" '
                         f'x2="{x(tick):.1f}" y1="{TOP - 6}" y2="{height}"/>'
                         f'<text x="{x(tick):.1f}" y="12" text-anchor="middle">{tick:g}</text>')
    for at, (result, ours, theirs) in enumerate(rows):
        y = TOP + ROW * at
        parts.append(
            f'<g><title>{html.escape(words(result))}</title>'
            f'<rect class="band" x="{x(theirs[0]):.1f}" y="{y + 12}" height="10" '
            f'width="{max(1, x(theirs[1]) - x(theirs[0])):.1f}"/>'
            f'<line class="spread" x1="{x(ours[0]):.1f}" x2="{x(ours[2]):.1f}" y1="{y + 17}" '
            f'y2="{y + 17}"/><circle class="median" cx="{x(ours[1]):.1f}" cy="{y + 17}" r="3.5"/>'
            f'<text x="{LEFT}" y="{y + 9}">{html.escape(result["case"])}</text></g>')
    said = html.escape(f'{bench}: ' + '; '.join(map(words, results)), quote=True)
    return (f'<figure><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{said}">'
            f'{"".join(parts)}</svg></figure>')


def words(result):
    return f'{result["case"]}: {result["ratio"]:.2f} of {result["baseline"]}'


def spread(low_high):
    return f'{low_high[0]:.4g} to {low_high[1]:.4g}' if low_high else '–'


def neighbours(results):
    """A word about a busy machine, or none."""
    share = max(result.get('others', 0) for result in results)
    return f' Other programs had {share:.2g} processors meanwhile.' if share > LIMIT else ''


def table(bench, results):
    heads = 'case', 'value', 'spread', 'unit', 'baseline', 'its value', 'its spread', 'ratio'
    lines = []
    for result in results:
        cells = (f'{result["value"]:.4g}', spread(result.get('spread')), result['unit'],
                 result['baseline'], f'{result["baseline_value"]:.4g}',
                 spread(result.get('baseline_spread')), f'{result["ratio"]:.2f}')
        lines.append(f'<tr><th scope="row">{html.escape(result["case"])}</th>' +
                     ''.join(f'<td>{html.escape(cell)}</td>' for cell in cells) + '</tr>')
    return ('<div class="scroll" tabindex="0" role="region" '
            f'aria-label="{html.escape(bench, quote=True)}, the figures"><table>'
            f'<caption>Medians, and the least and greatest run.{neighbours(results)}</caption>'
            '<thead><tr>' +
            ''.join(f'<th scope="col">{head}</th>' for head in heads) +
            f'</tr></thead><tbody>{"".join(lines)}</tbody></table></div>')


def page(results):
    benches = {}
    for result in results:
        benches.setdefault(result['bench'], []).append(result)
    sections = ''.join(f'<section><h2>{html.escape(bench)}</h2>{chart(bench, of)}{table(bench, of)}'
                       '</section>\n' for bench, of in benches.items())
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            'style-src \'unsafe-inline\'">\n<title>weft: benchmarks</title>\n'
            f'<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>weft: benchmarks</h1>\n'
            '<p>Each point is a ratio to its baseline in the same run, to the right being better; '
            'its line is the spread of our runs, the band that of the baseline’s.</p>\n'
            f'{sections}</main>\n</body>\n</html>\n')
