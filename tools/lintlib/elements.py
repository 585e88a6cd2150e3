"""elements: what a mutant of an element replaces stands once in its file.

tools/mutantlib/named.py has, for each element of the source documents, the text that is taken away.
Who writes that line anew would else learn of it when all tests have run.
"""

import pathlib
import runpy

NAMED = pathlib.Path('tools/mutantlib/named.py')


def check(tree):
    if not (tree.root / NAMED).is_file():
        return
    named = (tree.root / NAMED).read_text()
    for mutant in runpy.run_path(str(tree.root / NAMED))['all_of']():
        element = mutant.name.partition('-')[2]
        line = named[:named.find(f"('{element}', '{mutant.file}'")].count('\n') + 1
        file = tree.root / mutant.file
        times = file.read_text().count(mutant.old) if file.is_file() else 0
        if times != 1:
            yield NAMED, line, (f'{mutant.name}: {mutant.file} has its text {times} times: name '
                                'the text as it stands now')
        if mutant.old == mutant.new:
            yield NAMED, line, f'{mutant.name}: takes nothing away'
