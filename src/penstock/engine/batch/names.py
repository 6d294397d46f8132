"""The names under which batches count once: a scheduler repeats its jobs, and a query its batches."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock.engine.shared.manifest import Manifest

KEPT_NAMES = 1000
"""How many names of batches a checkpoint keeps: the newest ones."""


@dataclass(frozen=True)
class BatchName:
    """The name under which a batch counts once.

    Attributes:
        name: of the batch; of all batches of a query, where they have numbers.
        number: which of them it is; numbers only grow.
    """

    name: str
    number: int | None = None

    def __str__(self) -> str:
        return repr(self.name) if self.number is None else f"{self.number} of query {self.name!r}"

    def counted_in(self, manifest: Manifest) -> bool:
        """Whether a batch of this name counts already."""
        if self.number is None:
            return self.name in manifest.batches
        return self.number <= manifest.queries.get(self.name, -1)

    def noted_in(self, manifest: Manifest) -> Manifest:
        """A manifest in which it counts."""
        if self.number is not None:
            return msgspec.structs.replace(manifest, queries=manifest.queries | {self.name: self.number})
        newest = [*manifest.batches.items()][-KEPT_NAMES + 1 :]
        return msgspec.structs.replace(manifest, batches={**dict(newest), self.name: manifest.commit})
