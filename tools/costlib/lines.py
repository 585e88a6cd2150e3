"""What callgrind counted, by lines of the source of each file, whatever function they stand in."""

import collections
import re


class Names:
    """`(7) name` gives a number to a name, `(7)` stands for it afterwards."""

    def __init__(self):
        self.known = {}

    def of(self, text):
        number, name = re.fullmatch(r'(?:\((\d+)\))? ?(.*)', text).groups()
        if number and name:
            self.known[number] = name
        return name or self.known[number]


def line_of(text, before):
    """Lines stand as numbers, or as their distance from the one before."""
    if text == '*':
        return before
    return before + int(text) if text[0] in '+-' else int(text)


def counted(path):
    """{(file, line): instructions}, without those of what a line calls."""
    costs, names = collections.Counter(), Names()
    file, line, is_call = None, 0, False
    for row in path.read_text().splitlines():
        key, is_name, value = row.partition('=')
        if is_name and key in ('fl', 'fi', 'fe'):
            file = names.of(value)
        elif is_name and key in ('cfi', 'cfl'):
            names.of(value)
        elif key == 'calls':
            is_call = True
        elif re.match(r'[+\-*\d]', row):
            place, *cost = row.split()
            line = line_of(place, line)
            costs[file, line] += 0 if is_call or not cost else int(cost[0])
            is_call = False
    return costs
