"""What the scripts that pack weft share: commands, errors with a remedy, the time of files."""

import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]


class Fault(Exception):
    """what, which object, why, what to do."""


def run(*words, **options):
    """What the command says, or a Fault."""
    words = [str(word) for word in words]
    result = subprocess.run(words, capture_output=True, text=True, **options)
    if result.returncode != 0:
        said = (result.stdout + result.stderr).strip().splitlines()[-15:]
        raise Fault('command failed', ' '.join(words), '\n        '.join(said) or 'no word',
                    'tools/packages.sh build dist installs what it takes')
    return result.stdout


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Fault('nothing packed', tool, 'it is not installed',
                        'tools/packages.sh build dist installs it')


def epoch_s():
    """The time of all files: SOURCE_DATE_EPOCH, or that of the last commit."""
    given = os.environ.get('SOURCE_DATE_EPOCH', '')
    if given:
        if not given.isdigit():
            raise Fault('no time', f'SOURCE_DATE_EPOCH={given}', 'it is no number',
                        'give seconds since 1970, or unset it')
        return int(given)
    said = subprocess.run(['git', '-C', SOURCE, 'log', '-1', '--format=%ct'], capture_output=True,
                          text=True).stdout.strip()
    return int(said) if said else 0


def guarded(main):
    """Runs it; a Fault, or an error of the system, ends the program in so many words."""
    try:
        main()
    except Fault as fault:
        print('weft: {}: {}\n  why: {}\n  do:  {}'.format(*fault.args), file=sys.stderr)
        sys.exit(1)
    except (OSError, ValueError) as error:
        print(f'weft: nothing packed: {sys.argv[0]}\n  why: {error}\n  do:  look at what it names',
              file=sys.stderr)
        sys.exit(1)
