#!/usr/bin/env python3
"""docs/grafana/weft.json: what it asks Prometheus for is what weft exports, with these labels."""

import json
import os
import re
import urllib.request

from doors import ANSWER, READ, SOURCE, Client, case, encoded, main, process, serving, watching

DASHBOARD = json.loads((SOURCE / 'docs/grafana/weft.json').read_text())
WORDS = {'le', 'instance', 'job'}  # labels of the format, and of Prometheus itself


def exported(address):
    """{metric: its labels}."""
    with urllib.request.urlopen(address + 'metrics', timeout=20) as answer:
        rows = [line for line in answer.read().decode().splitlines() if line[0] != '#']
    found = {}
    for name, labels in re.findall(r'^(\w+)(?:\{(.*)\})? \S+$', '\n'.join(rows), re.M):
        found.setdefault(name, set()).update(re.findall(r'(?:^|,)(\w+)="', labels))
    return found


def everything():
    with serving('ram:1M') as (node, address), Client(node).go() as client:
        client.request(READ, 0, 512)
        assert client.answer(512)[0] == 0
        found = exported(address)
    with process(encoded(ANSWER)), watching(os.getpid()) as (_, address):
        return {**found, **exported(address)}


def expressions():
    """(title, expression, legend) of each target, and the queries of the variables."""
    for panel in DASHBOARD['panels']:
        for target in panel.get('targets', ()):
            yield panel['title'], target['expr'], target['legendFormat']
    for variable in DASHBOARD['templating']['list']:
        if variable['type'] == 'query':
            yield variable['name'], variable['definition'], ''


@case
def each_metric_is_exported_with_the_labels_that_are_asked_for():
    metrics = everything()
    asked = set()
    for title, expression, legend in expressions():
        names = re.findall(r'\bweft_\w+', expression)
        assert names, f'{title}: {expression}'
        for name in names:
            assert name in metrics, f'{title}: no metric {name}'
        labels = set(re.findall(r'(\w+)(?:=~|!=|=)"', expression)) | \
            set(re.findall(r'\{\{(\w+)\}\}', legend)) | \
            set(re.findall(r'label_values\(\w+, (\w+)\)', expression)) | \
            {label for group in re.findall(r'by \((.*?)\)', expression)
             for label in group.split(', ')}
        for name in names:
            missing = labels - metrics[name] - WORDS
            assert not missing, f'{title}: {name} has no {missing}'
        asked.update(names)
    families = {re.sub(r'_(bucket|sum|count)$', '', name) for name in metrics}
    assert len(asked) >= len(families) * 2 // 3, families - asked


@case
def counters_are_asked_for_by_rate_and_gauges_as_they_are():
    for title, expression, _ in expressions():
        for name in re.findall(r'\bweft_\w+', expression):
            is_rate = bool(re.search(rf'\b(rate|increase)\({name}\b', expression))
            assert is_rate == bool(re.search('_(total|bucket)$', name)), f'{title}: {expression}'


@case
def each_panel_has_a_place_of_its_own():
    taken = set()
    for panel in DASHBOARD['panels']:
        place = panel['gridPos']
        own = {(x, y) for x in range(place['x'], place['x'] + place['w'])
               for y in range(place['y'], place['y'] + place['h'])}
        assert not own & taken and place['x'] + place['w'] <= 24, panel['title']
        taken |= own
    numbers = [panel['id'] for panel in DASHBOARD['panels']]
    assert len(set(numbers)) == len(numbers)


main()
