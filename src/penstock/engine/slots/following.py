"""The driver's view of copies: which slot follows which, the orders sent to it, and the commit it has reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.places import slot_of
from penstock.engine.slots.links import Follow, Followed

_ON_THEIR_WAY = 4
"""Most unanswered orders. Later ones wait and are sent together, so that a slow or stopped slot is not sent more than
its socket holds.
"""


class Following:
    """The copies of one job's slots.

    Args:
        followers: by each slot the one that follows it.
        on_copied: called with a slot whose copy has reached the newest commit.

    >>> sent, copied = [], []
    >>> following = Following({0: 1}, 2, copied.append)
    >>> entry = TaskEntry(changed=7)
    >>> following.note("app", Manifest(7, {"0_0": entry, "0_1": entry}), ["0_0", "0_1"])
    >>> [(order.number, list(order.entries)) for slot, order in following.due()]
    [(7, ['0_0'])]
    >>> following.heard(1, Followed(7))
    >>> copied
    [0]
    """

    def __init__(self, followers: Mapping[int, int], slots: int, on_copied: Callable[[int], None]):
        self._followers = followers
        self._slots = slots
        self._on_copied = on_copied
        self._knows_all = False
        self._application = ""
        self._waiting: dict[int, dict[str, TaskEntry]] = {}
        self._sent: dict[int, list[int]] = {}
        """By following slot, the numbers of its unanswered orders."""
        self._commit = -1
        self.copied: set[int] = set()
        """The slots whose copies have caught up once, and have followed since."""
        self._failed: dict[int, set[str]] = {}
        """By following slot, the tasks whose copies it could not update."""

    def note(self, application: str, manifest: Manifest, changed: Iterable[str]) -> None:
        """Record a commit and the tasks that took part in it. The first one is sent for all tasks."""
        if not self._followers:
            return
        self._application, self._commit = application, manifest.commit
        names = changed if self._knows_all else manifest.tasks
        self._knows_all = True
        for name in names:
            follower = self._followers.get(slot_of(name, self._slots))
            if follower is not None and name in manifest.tasks:
                self._waiting.setdefault(follower, {})[name] = manifest.tasks[name]
        for follower, failed in self._failed.items():
            again = {name: manifest.tasks[name] for name in failed if name in manifest.tasks}
            self._waiting.setdefault(follower, {}).update(again)

    def due(self) -> list[tuple[int, Follow]]:
        """Return the orders to send now, by slot."""
        found = []
        for follower in list(self._waiting):
            sent = self._sent.setdefault(follower, [])
            if len(sent) < _ON_THEIR_WAY and (entries := self._waiting.pop(follower)):
                sent.append(self._commit)
                found.append((follower, Follow(self._application, self._commit, entries)))
        return found

    def heard(self, follower: int, answer: Followed) -> None:
        """Record that a slot has carried out an order."""
        sent = self._sent.setdefault(follower, [])
        sent[:] = [number for number in sent if number > answer.number]
        self._failed[follower] = set(answer.failed)
        behind = {slot_of(task, self._slots) for task in answer.failed}
        for slot, by in self._followers.items():
            if by == follower and slot in behind:
                self.copied.discard(slot)
            elif by == follower and not sent:
                self.copied.add(slot)
                self._on_copied(slot)
