"""The names under which batches are committed once: a scheduler repeats its jobs, and a query its batches."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock.engine.shared.manifest import Manifest

KEPT_NAMES = 1000
"""How many batch names a checkpoint keeps: the newest ones."""


@dataclass(frozen=True)
class BatchName:
    """The name under which a batch is committed once.

    Attributes:
        name: the batch's name, or the query's if its batches are numbered.
        number: the batch's number in its query; numbers only grow.
    """

    name: str
    number: int | None = None

    def __str__(self) -> str:
        return repr(self.name) if self.number is None else f"{self.number} of query {self.name!r}"

    def counted_in(self, manifest: Manifest) -> bool:
        """Return whether a batch of this name is already committed."""
        if self.number is None:
            return self.name in manifest.batches
        return self.number <= manifest.queries.get(self.name, -1)

    def noted_in(self, manifest: Manifest) -> Manifest:
        """Return a manifest in which it is committed."""
        if self.number is not None:
            return msgspec.structs.replace(manifest, queries=manifest.queries | {self.name: self.number})
        newest = [*manifest.batches.items()][-KEPT_NAMES + 1 :]
        return msgspec.structs.replace(manifest, batches={**dict(newest), self.name: manifest.commit})
