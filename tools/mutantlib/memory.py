"""What earlier runs found of mutants, and how long it holds."""

import hashlib
import json

from .workshop import digest_of

LASTING = ('equivalent', 'stillborn')


class Memory:
    """All holds while the mutant's own file is the same. A kill holds while its killer is what it
    was, too, a survivor while all tests are: else it meets those that it has not met as they are.
    What the room's own tests let live, others may kill."""

    def __init__(self, folder, digests, is_own, patience_s, is_fresh):
        self.path = folder / 'memory.json'
        self.digests = digests  # of the files that mutants are of
        self.is_own = is_own
        self.patience_s = patience_s
        self.ids = {}
        self.scope = None
        is_kept = self.path.is_file() and not is_fresh
        kept = json.loads(self.path.read_text()) if is_kept else {}
        self.records = kept if all(isinstance(one, dict) for one in kept.values()) else {}

    def learn(self, ids):
        """What each test is now, by name."""
        self.ids = ids
        self.scope = digest_of([self.ids, self.patience_s])

    def _key(self, mutant, is_own):
        text = f'{self.digests[str(mutant.path)]}:{mutant.change}{":own" if is_own else ""}'
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def _id_of(self, killer):
        """Of the whole test: its name may be that of a case of it, with how it failed."""
        return self.ids.get(killer.split(':')[0].split(' ')[0])

    def lasting(self, mutant):
        """'stillborn' or 'equivalent', if it is known as such."""
        words = [self.records.get(self._key(mutant, is_own), {}).get('verdict', [None])[0]
                 for is_own in (False, True)]
        return next((word for word in words if word in LASTING), None)

    def differs(self, mutant):
        """Whether its objects are known as other ones."""
        return self.records.get(self._key(mutant, self.is_own), {}).get('differs', False)

    def note_differs(self, mutant):
        self.records[self._key(mutant, self.is_own)]['differs'] = True
        self.save()

    def recall(self, mutant):
        """[verdict, by what], or None."""
        own = self._recall(self._key(mutant, True))
        return own if own and own[0] != 'survived' else self._recall(self._key(mutant, self.is_own))

    def _recall(self, key):
        record = self.records.get(key, {})
        word, detail = record.get('verdict', (None, None))
        holds = word in LASTING or (word and record['holds'] == (
            self._id_of(detail) if word == 'killed' else self.scope))
        return [word, detail] if holds else None

    def met_by(self, mutant):
        """{test: its id}"""
        return self.records.get(self._key(mutant, self.is_own), {}).get('met', {})

    def keep(self, mutant, verdict, met):
        word, detail = verdict
        self.records[self._key(mutant, self.is_own)] = {
            'verdict': verdict, 'met': met, 'differs': self.differs(mutant),
            'holds': self._id_of(detail) if word == 'killed' else self.scope}
        self.save()

    def save(self):
        beside = self.path.with_suffix('.new')
        beside.write_text(json.dumps(self.records))
        beside.rename(self.path)
