"""Cases in which Penstock deliberately differs from Kafka Streams, compared as ``differences.json`` says.

The file names cases, and rules for all cases of a kind, in prose. Each rule, and each case that no rule covers, has its
comparison in ``comparisons.py``, under the name in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.testing.oracle.comparisons import BY_TOPIC, CASES, OTHERWISE, WHOLE, compare_topics
from penstock.testing.oracle.functions import CaseError, Spec
from penstock.testing.oracle.outcome import Comparison, Outcome, differences

FILE = "differences.json"


@dataclass(frozen=True)
class Decisions:
    """The content of one ``differences.json``: the names of its cases, and its rules."""

    cases: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()

    @classmethod
    def beside(cls, folder: Path) -> Decisions:
        """Return the decisions of the file beside a folder of cases; empty without such a file.

        Raises:
            CaseError: the file has a rule that has no comparison here.
        """
        file = folder.resolve().parent / FILE
        if not file.is_file():
            return cls()
        said = json.loads(file.read_text())
        rules = tuple(rule["when"] for rule in said["rules"])
        unknown = [when for when in rules if when not in BY_TOPIC.keys() | WHOLE.keys() | OTHERWISE.keys()]
        if unknown:
            raise CaseError(f"{file} has rules that this runner does not know: {'; '.join(unknown)}")
        return cls(frozenset(said["cases"]), rules)

    def comparison_of(self, case: Spec) -> Callable[[Spec, Outcome], list[str]] | None:
        """Return the comparison for a case; None for a plain one.

        Raises:
            CaseError: the file names the case, and there is no comparison for it here.
        """
        for when in self.rules:
            if when in WHOLE and WHOLE[when].applies(case):
                return WHOLE[when].compare
        rules = [rule for when, rule in BY_TOPIC.items() if when in self.rules and rule.steps_of(case)]
        if rules:
            return lambda case, outcome: compare_topics(case, outcome, rules)
        if case["name"] not in self.cases:
            return None
        if case["name"] not in CASES:
            raise CaseError(f"{FILE} names the case {case['name']}, and this runner does not know how to compare it")
        return CASES[case["name"]]

    def differences(self, case: Spec, outcome: Outcome) -> list[str]:
        """Describe the differences from the expectations of a case, as decided; empty if it passed."""
        compare: Comparison = self.comparison_of(case) or differences
        found = compare(case, outcome)
        for when in self.rules:
            if found and when in OTHERWISE:
                compare = partial(OTHERWISE[when], compare=compare)  # if two rules apply, both are used
                found = compare(case, outcome)
        return found
