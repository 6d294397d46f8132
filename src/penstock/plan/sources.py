"""Sources that read by a pattern: checks the pattern, and that no other step reads a topic that it matches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock.errors import PenstockWarning, TopologyError
from penstock.plan.node import Node
from penstock.plan.rewriting import matching
from penstock.usage.callers import caller, warn_caller


def pattern_of(topic: Any) -> str | None:
    """Return the pattern that was given in place of a topic's name; None if it is a name.

    Raises:
        TopologyError: the pattern is one of bytes, or has flags.
    """
    if not isinstance(topic, re.Pattern):
        return None
    if not isinstance(topic.pattern, str) or topic.flags & ~re.UNICODE:
        raise TopologyError(
            f"the pattern {topic!r} at {caller()} must be a text pattern without flags; write flags inside it, as (?i)"
        )
    return topic.pattern


def check_patterns(declared: Sequence[Node]) -> None:
    """Raise ``TopologyError`` if a pattern matches a topic that another step reads by its name, or that is written
    between the topology's own steps."""
    for one in declared:
        if one.pattern is None:
            continue
        for other in declared:
            for topic in matching(one.pattern, other.source_topics if other.pattern is None else ()):
                raise TopologyError(
                    f"the pattern {one.pattern!r} at {one.where} matches topic {topic!r}, which the step at "
                    f"{other.where} reads or repartitions through by its name; change one of the two"
                )


def warn_of_cyclic_letters(declared: Sequence[Node], dead_letters: Sequence[str]) -> None:
    """Warn if a program reads its own dead letters: a record that fails each time would come back forever."""
    for one in declared:
        known = dead_letters if one.pattern is None else matching(one.pattern, dead_letters)
        for topic in known:
            if one.pattern is not None or topic in one.topics:
                warn_caller(
                    f"dead letters go to topic {topic!r}, which the program itself reads at {one.where}: a record that "
                    "fails there becomes a dead letter again and again, without end. Give dead letters a topic of "
                    "their own",
                    PenstockWarning,
                )
