#!/usr/bin/env python3
"""The commands of docs/faq.md do what they are there for: each question's are run as they stand."""

import re

import page_commands
from cases import SOURCE, case, main

FAQ = (SOURCE / 'docs/faq.md').read_text()


@case
def every_question_has_an_answer_and_every_page_is_there():
    for part in re.split(r'^### ', FAQ, flags=re.M)[1:]:
        body = re.sub(r'^    .*$', '', part.partition('\n')[2], flags=re.M)
        assert 2 <= len(re.split(r'^## ', body, flags=re.M)[0].strip().splitlines()) <= 4, part
    for page in re.findall(r'\]\((\w[\w.-]*\.md)', FAQ):
        assert (SOURCE / 'docs' / page).is_file(), page
    for name, section in re.findall(r'(weft[\w-]*)\((\d)\)', FAQ):
        assert (SOURCE / 'man' / f'{name}.{section}').is_file(), name


page_commands.enter_network()
for question in page_commands.sections(FAQ):
    case(page_commands.case_of(*question))
main()
