"""Positions: how far the input is processed in a result, and how far it must be (KIP-796)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.messages import show


@dataclass(frozen=True)
class Position:
    """The offset of the last processed record of each partition of some topics.

    >>> position = Position.empty().with_component("flights", 0, 41).with_component("flights", 1, 7)
    >>> position.topics, position.partitions("flights")
    ({'flights'}, {0: 41, 1: 7})
    """

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Position:
        """The position before the first record."""
        return cls()

    @classmethod
    def from_map(cls, offsets: Mapping[str, Mapping[int, int]]) -> Position:
        """A position from a dict of dicts: offsets by topic and partition.

        Raises:
            ConfigError: it is something else.
        """
        try:
            found = {str(t): {int(p): int(o) for p, o in parts.items()} for t, parts in offsets.items()}
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(
                f'a position is a dict of offsets by topic and partition, as {{"flights": {{0: 41}}}}; '
                f"got {show(offsets)}"
            ) from None
        return cls(found)

    @classmethod
    def merged(cls, positions: Iterable[Position]) -> Position:
        """Merge several positions: the highest offset of each partition."""
        found: dict[str, dict[int, int]] = {}
        for position in positions:
            for topic, partitions in position.offsets.items():
                known = found.setdefault(topic, {})
                for partition, offset in partitions.items():
                    known[partition] = max(offset, known.get(partition, -1))
        return cls(found)

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """This position with another offset of a partition."""
        return Position({**self.offsets, topic: {**self.offsets.get(topic, {}), partition: offset}})

    def merge(self, other: Position) -> Position:
        """Merge two positions: the higher offset of each partition."""
        return Position.merged((self, other))

    @property
    def topics(self) -> set[str]:
        """The topics."""
        return set(self.offsets)

    def partitions(self, topic: str) -> dict[int, int]:
        """The offsets of a topic's partitions."""
        return dict(self.offsets.get(topic, {}))

    def reaches(self, bound: Position, partition: int) -> bool:
        """Whether it is as far in one partition as another position."""
        for topic, offsets in bound.offsets.items():
            if partition in offsets and self.offsets.get(topic, {}).get(partition, -1) < offsets[partition]:
                return False
        return True


@dataclass(frozen=True)
class PositionBound:
    """The position that a partition must have reached for its answer to count.

    >>> PositionBound.at(Position.empty().with_component("flights", 0, 41)).is_unbounded
    False
    """

    position: Position = field(default_factory=Position)

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Any position is good enough."""
        return cls()

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """The position has to be at least this one, in each partition that it has."""
        return cls(position)

    @property
    def is_unbounded(self) -> bool:
        """Whether any position is good enough."""
        return not self.position.offsets
