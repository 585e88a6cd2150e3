"""What CI systems run, line by line, as action.yml and .gitlab/weft.yml have it."""

import re

from cases import SOURCE

ACTION = (SOURCE / 'action.yml').read_text()
GITLAB = (SOURCE / '.gitlab/weft.yml').read_text()


def action_step(**inputs):
    """The script of the action's step, and the variables that it gets of the inputs."""
    defaults = dict(re.findall(r"^  (\w+):\n    description: .*\n    default: (.*)$", ACTION, re.M))
    values = {name: inputs.get(name, default.strip("'")) for name, default in defaults.items()}
    of_step = re.findall(r'^        (\w+): \$\{\{ inputs\.(\w+) \}\}$', ACTION, re.M)
    assert {name for _, name in of_step} == set(values) and values
    lines = re.search(r'^      run: \|\n((?:        .*\n)+)', ACTION, re.M).group(1)
    script = re.sub('^ {8}', '', lines, flags=re.M)
    return script, {variable: values[name] for variable, name in of_step}


def gitlab_job():
    """What a job that extends .weft runs before its own script, and its variables."""
    lines = re.search(r'before_script:\n((?:    - .*\n)+)', GITLAB).group(1)
    steps = [line.strip()[2:].strip("'") for line in lines.splitlines()]
    return '\n'.join(steps) + '\n', dict(re.findall(r'^    (WEFT_\w+): (.*)$', GITLAB, re.M))
