"""One start held against the one before: what goes on, what begins empty, what is refused."""

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
from penstock.storage import Storage

_log = logging.getLogger(__name__)


class Evolution:
    """What a start does about a topology that has changed.

    Args:
        description: what the topology keeps.
        wishes: what the user says about the change.
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
        """A manifest with tasks, topics and stream times under the names that this topology has for them.

        Raises:
            ConfigError: the topology would mix or lose what is kept.
        """
        start = Starts(self._storage).of(newest)
        before = None if start is None else start.topology
        if before is None or not newest.tasks:
            return newest
        own = self._description
        if self._topology.has_patterns:  # a topic that appears makes no store or step another one
            own = description_of(self._topology, self._layout, before.topics)
        matches = matches_of(before, own, self.wishes)
        check(before, own, matches, newest, self._application_id, self._storage.shown)
        moves = Moves(before, own, matches, self._layout.tasks)
        self._known = newest.start, moves, matches
        return moves.manifest(newest)

    def carried(self, newest: Manifest, fitted: Manifest, application: str) -> Manifest:
        """What ``fitted`` gave, with rows written for tasks whose state has other names; nothing is changed yet."""
        start, moves, _ = self._known
        if moves is None or start != newest.start:
            return fitted
        return Carrying(self._topology, self._layout, self._storage, moves, newest, application).carried(fitted)

    def tell(self, before: Manifest) -> None:
        """Say what goes on under another name, and what begins empty or is let go of."""
        start, moves, matches = self._known
        if moves is None or start != before.start:
            return
        for name, now in matches.stores.items():
            if name != now:
                _log.warning("store %r goes on as %r", name, now)
        for name in sorted(self._description.stores.keys() - matches.stores.values()):
            _log.warning("store %r is new and begins empty: what was processed before is not in it", name)
        for name in sorted(matches.dropped):
            _log.warning("%r was let go of, as drop says", name)
