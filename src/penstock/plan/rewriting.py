"""Steps with something else in them: each becomes another one, and so do all that refer to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from penstock.plan.node import Node, StoreSpec
from penstock.serdes import Serde


class Rewriting:
    """Makes other steps of steps; what has nothing to change stays as it is."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}

    def of(self, given: Iterable[Any]) -> list[Any]:
        """What takes the places of steps, or of stores."""
        return [self._new(one) for one in given]

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        """What is to be other in a step, besides what it refers to."""
        return {}

    def serde(self, one: Serde) -> Serde:
        """What takes the place of a type."""
        return one

    def _new(self, one: Any) -> Any:
        """What takes the place of a step, a store, a type, or several of them; itself if there is nothing to change."""
        if isinstance(one, Serde):
            return self.serde(one)
        if isinstance(one, tuple) and type(one) is tuple:
            several = tuple(map(self._new, one))
            return several if any(new is not old for new, old in zip(several, one, strict=True)) else one
        if not isinstance(one, Node | StoreSpec):
            return one
        if id(one) not in self._done:
            changed = {
                field.name: new
                for field in fields(one)
                if (new := self._new(getattr(one, field.name))) is not getattr(one, field.name)
            }
            changed |= self.changes(one)
            self._done[id(one)] = one, (replace(one, **changed) if changed else one)
        return self._done[id(one)][1]


class Expanded(Rewriting):
    """Gives sources that read by a pattern the topics that match it.

    Args:
        topics: all that there are.
    """

    def __init__(self, topics: Iterable[str]):
        super().__init__()
        self._topics = sorted(set(topics))

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        if not isinstance(step, Node) or step.pattern is None:
            return {}
        found = matching(step.pattern, self._topics)
        return {} if found == step.topics else {"topics": found}


def matching(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Those topics whose whole names match a pattern."""
    return tuple(topic for topic in topics if re.fullmatch(pattern, topic))
