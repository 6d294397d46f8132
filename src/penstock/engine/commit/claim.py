"""Claims: a log records which checkpoint writes under each application id.

Offsets and outputs belong together, and the checkpoint connects them. A start with another checkpoint, for example from
another working folder or with a new state folder, would process everything again and write all results a second time.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.plan.topology import Topology
from penstock.storage.base import Storage, seal, unseal
from penstock.values.times import wall_clock_ms


class Claim(msgspec.Struct, frozen=True):
    """The entry of an application id in a log."""

    application: str
    """The identity of the checkpoint."""
    checkpoint: str
    """Where the checkpoint was when it first used this log, without secrets."""
    at: int
    """Wall-clock time in ms."""


class Claims:
    """The claims of one application id in a log. A log that lives inside this process keeps none."""

    def __init__(self, log: Log, application_id: str):
        self._log = log
        self._application_id = application_id
        self._storage = log.claims

    def check(self, claim: Claim | None, application: str | None, storage: Storage, topology: Topology) -> None:
        """Raise ``ConfigError`` when another checkpoint writes under this application id.

        Args:
            claim: must be read before the identity, because a first start at the same time makes the identity first.
            application: the identity of the checkpoint; None for a new one.
        """
        if claim is not None and claim.application != application and not self._is_over(claim, topology):
            assert self._storage is not None
            here = _place(storage)
            is_gone = here == claim.checkpoint
            other = "new at the same place" if is_gone else here
            there = f"start it where it was, or with checkpoint={claim.checkpoint!r}"
            way = "put back the folder that was there" if is_gone else there
            raise ConfigError(
                f"application {self._application_id!r} writes into the log {self._log.url} from the checkpoint "
                f"{claim.checkpoint}; this start has another one, {other}, and would process everything and "
                f"write all results a second time. To continue, {way} (or a copy of that folder). To process the "
                "topics again beside it, give this program another application id. If that checkpoint is lost or no "
                f"longer wanted, remove the topics it wrote into, or the file {self._storage.shown}/{self._name} to "
                "write all results again after the present ones"
            )

    def make(self, application: str, storage: Storage) -> None:
        """Record that this checkpoint writes under this application id."""
        if self._storage is None:
            return
        claim = self.read()
        if claim is not None and (claim.application, claim.checkpoint) != (application, _place(storage)):
            self._storage.delete(self._name)
        now = wall_clock_ms()
        self._storage.create(self._name, seal(Claim(application, _place(storage), now)))

    def read(self) -> Claim | None:
        """Return the log's claim for the application id; None if nothing was written under it."""
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
        """Return whether the claiming checkpoint is gone and the topics contain none of its output."""
        if "://" in claim.checkpoint or (Path(claim.checkpoint) / "application.json").exists():
            return False
        topics = [topic for topic in topology.sink_topics if self._log.exists(topic)]
        return all(self._log.last_sequence(topic, producer_of(claim.application)) < 0 for topic in topics)


def producer_of(application: str) -> str:
    """Return the producer name under which an application appends to topics."""
    return f"streams:{application}"


def _place(storage: Storage) -> str:
    return storage.shown if "://" in storage.shown else str(Path(storage.shown).resolve())
