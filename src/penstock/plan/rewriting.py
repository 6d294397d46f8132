"""Rewrites topologies: replaces steps, and all references to them, by changed copies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from penstock.plan.node import Node, StoreSpec
from penstock.serdes import Serde


class Rewriting:
    """Replaces steps by changed ones; a step without changes stays the same object."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}

    def of(self, given: Iterable[Any]) -> list[Any]:
        """Return the replacements of steps or stores."""
        return [self._new(one) for one in given]

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        """The fields of a step to change, apart from its references."""
        return {}

    def serde(self, one: Serde) -> Serde:
        """The replacement of a type."""
        return one

    def _new(self, one: Any) -> Any:
        """The replacement of a step, a store, a type, or several of them; the object itself if nothing changes."""
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
        topics: all existing topics.
    """

    def __init__(self, topics: Iterable[str]):
        super().__init__()
        self._topics = sorted(set(topics))

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        if not isinstance(step, Node) or step.pattern is None:
            return {}
        found = matching(step.pattern, self._topics)
        return {} if found == step.topics else {"topics": found}


class Owned(Rewriting):
    """Gives the topics of DataFrames, sources, tables and sinks the names that they have in an application's log."""

    def __init__(self, application_id: str):
        super().__init__()
        self._application_id = application_id

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        if not isinstance(step, Node) or step.outside is None:
            return {}
        topic = step.outside.topic_of(self._application_id)
        return {"topics": (topic,)} if "topics" in {one.name for one in fields(step)} else {"topic": topic}


def matching(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """The topics whose whole names match a pattern."""
    return tuple(topic for topic in topics if re.fullmatch(pattern, topic))
