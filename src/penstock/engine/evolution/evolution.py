"""Compares a start with the previous one: which state continues, which begins empty, which change is refused."""

from __future__ import annotations

import logging

from penstock.engine.evolution.carrying import Carrying
from penstock.engine.evolution.matching import Matches, Wishes, matches_of
from penstock.engine.evolution.moves import Moves
from penstock.engine.evolution.refusals import check
from penstock.engine.shared.description import Description, description_of
from penstock.engine.shared.layout import Layout
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.starts import Starts
from penstock.plan.topology import Topology
from penstock.storage.base import Storage

_log = logging.getLogger(__name__)


class Evolution:
    """Applies a changed topology to existing state at a start.

    Args:
        description: the state and topics of the new topology.
        wishes: the user's `rename` and `drop`.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        layout: Layout,
        description: Description,
        storage: Storage,
        wishes: Wishes,
    ):
        self._topology, self._application_id, self._layout = topology, application_id, layout
        self._description, self._storage, self.wishes = description, storage, wishes
        self._known: tuple[str, Moves | None, Matches] = ("", None, Matches())

    def fitted(self, newest: Manifest) -> Manifest:
        """Return a manifest whose tasks, topics and stream times have the names of this topology.

        Raises:
            ConfigError: the topology would mix or lose stored data.
        """
        start = Starts(self._storage).of(newest)
        before = None if start is None else start.topology
        if before is None or not newest.tasks:
            return newest
        own = self._description
        if self._topology.has_patterns:  # a new topic changes no store and no step
            own = description_of(self._topology, self._layout, before.topics)
        matches = matches_of(before, own, self.wishes)
        check(before, own, matches, newest, self._application_id, self._storage.shown)
        moves = Moves(before, own, matches, self._layout.tasks)
        self._known = newest.start, moves, matches
        return moves.manifest(newest)

    def carried(self, newest: Manifest, fitted: Manifest, application: str) -> Manifest:
        """Return the manifest of ``fitted``, with rows written for tasks whose state has other names. Commits
        nothing.
        """
        start, moves, _ = self._known
        if moves is None or start != newest.start:
            return fitted
        return Carrying(self._topology, self._layout, self._storage, moves, newest, application).carried(fitted)

    def tell(self, before: Manifest) -> None:
        """Log which stores continue under another name, begin empty or were dropped."""
        start, moves, matches = self._known
        if moves is None or start != before.start:
            return
        for name, now in matches.stores.items():
            if name != now:
                _log.warning("store %r is now %r, with its rows", name, now)
        for name in sorted(self._description.stores.keys() - matches.stores.values()):
            _log.warning("store %r is new and begins empty: what was processed before is not in it", name)
        for name in sorted(matches.dropped):
            _log.warning("%r was dropped, as drop says", name)
