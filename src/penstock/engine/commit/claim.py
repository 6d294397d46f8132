"""Who writes into a log under an application id: the log says which checkpoint it is.

Offsets and outputs belong together, and they meet in the checkpoint. A start with another checkpoint, from another
working folder or with a new state folder, would process everything again and put it out a second time.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.plan.topology import Topology
from penstock.storage import Storage, seal, unseal
from penstock.times import wall_clock_ms


class Claim(msgspec.Struct, frozen=True):
    """What a log says about an application id."""

    application: str
    """The identity of the checkpoint."""
    checkpoint: str
    """Where it was when it was first used with this log, without anything secret."""
    at: int
    """Wall-clock time in ms."""


class Claims:
    """Which checkpoint writes into a log under an application id; nothing where the log is this process's own."""

    def __init__(self, log: Log, application_id: str):
        self._log = log
        self._application_id = application_id
        self._storage = log.claims

    def check(self, claim: Claim | None, application: str | None, storage: Storage, topology: Topology) -> None:
        """Raise ``ConfigError`` when another checkpoint writes under this application id.

        Args:
            claim: read before the identity: a first start beside this one makes the identity first.
            application: the identity of the checkpoint; None for a new one.
        """
        if claim is not None and claim.application != application and not self._is_over(claim, topology):
            assert self._storage is not None
            raise ConfigError(
                f"application {self._application_id!r} writes into the log {self._log.url} from the checkpoint "
                f"{claim.checkpoint}; this start has another one, {_place(storage)}, and would process and put out "
                f"everything a second time. To go on, start it where it was, or with checkpoint={claim.checkpoint!r} "
                "(or a copy of that folder). To process the topics once more beside it, give this program another "
                "application id. If that checkpoint is lost or no longer wanted, remove the topics it wrote into, or "
                f"the file {self._storage.shown}/{self._name} to have everything put out again behind what "
                "is there"
            )

    def make(self, application: str, storage: Storage) -> None:
        """Write down that this checkpoint writes under this application id."""
        if self._storage is None:
            return
        claim = self.read()
        if claim is not None and (claim.application, claim.checkpoint) != (application, _place(storage)):
            self._storage.delete(self._name)
        now = wall_clock_ms()
        self._storage.create(self._name, seal(Claim(application, _place(storage), now)))

    def read(self) -> Claim | None:
        """What the log says about an application id; None if nothing has been written under it."""
        if self._storage is None:
            return None
        try:
            return unseal(self._storage.read(self._name), Claim, f"{self._storage.shown}/{self._name}")
        except FileNotFoundError:
            return None

    @property
    def _name(self) -> str:
        return f"{self._application_id}.json"

    def _is_over(self, claim: Claim, topology: Topology) -> bool:
        """Whether a checkpoint is gone, and nothing is left of what it put out."""
        if "://" in claim.checkpoint or (Path(claim.checkpoint) / "application.json").exists():
            return False
        topics = [topic for topic in topology.sink_topics if self._log.exists(topic)]
        return all(self._log.last_sequence(topic, producer_of(claim.application)) < 0 for topic in topics)


def producer_of(application: str) -> str:
    """Under which name an application appends to topics."""
    return f"streams:{application}"


def _place(storage: Storage) -> str:
    return storage.shown if "://" in storage.shown else str(Path(storage.shown).resolve())
