"""The slots of a job that have come: their connections, and the numbers of those that came without one."""

from __future__ import annotations

import threading
import time

from penstock.engine.slots.door import Door
from penstock.engine.slots.links import NO_SLOT, Hello, Link, LinkLostError, Seat, readable
from penstock.engine.slots.seating import seated
from penstock.engine.task.live import StoreAnswer, StoreQuestion


class Asked:
    """The connection to a slot for questions; one at a time."""

    def __init__(self, link: Link):
        self._link = link
        self._asking = threading.Lock()
        self._is_lost = False

    def ask(self, question: StoreQuestion) -> StoreAnswer | None:
        """Return the answer; None if the slot is gone, or once an answer took too long: the next one that arrives
        would be the answer to an earlier question."""
        with self._asking:
            answer = None if self._is_lost else self._answer_to(question)
            self._is_lost = answer is None
        return answer

    def _answer_to(self, question: StoreQuestion) -> StoreAnswer | None:
        try:
            self._link.send(question)
            answer = self._link.message()
        except LinkLostError:
            return None
        return answer if isinstance(answer, StoreAnswer) else None


class Arrivals:
    """The slots of one job after the other.

    Args:
        slots: how many there are when all have come.
        asks: whether slots also open a connection for questions.
    """

    def __init__(self, door: Door, slots: int, asks: bool):
        self._door = door
        self._slots = slots
        self._asks = asks
        self.links: dict[int, Link] = {}
        self.asked: dict[int, Asked] = {}
        self.machines: dict[int, str] = {}
        """Where those are that came without a number."""
        self._guests: list[tuple[Link, Hello]] = []
        """Slots without a number: until they get one, and then those too many."""
        self._copies: list[Link] = []
        """Second processes of slots that have come. If such a copy ended well, Spark would end the first one."""
        self.first: float | None = None
        """When the first one came, by the monotonic clock."""

    @property
    def count(self) -> int:
        """How many have come, with a number or without."""
        return min(len(self.links) + len(self._guests), self._slots)

    @property
    def ready(self) -> set[int]:
        """The slots that have all their connections."""
        return set(self.links) & set(self.asked) if self._asks else set(self.links)

    def welcome(self, job: int, seconds: float = 0.0) -> bool:
        """Let in the next one that comes within so many seconds. Return whether one has come."""
        if not readable([self._door], seconds) or (come := self._door.next()) is None:
            return False
        link, hello = come
        there = self.asked if hello.asks else self.links
        if hello.job != job:
            link.close()  # it belongs to an abandoned job
            return True
        if hello.slot in there:
            self._copies.append(link)
        elif hello.slot == NO_SLOT:
            self._guests.append(come)
        elif hello.asks:
            self.asked[hello.slot] = Asked(link)
        else:
            self.links[hello.slot] = link
        self.first = self.first or time.monotonic()
        return True

    def seat(self) -> None:
        """Give numbers to those without, as far as there are any left. Raise ``LinkLostError`` if one is gone."""
        free = set(range(self._slots)) - set(self.links)
        guests, self._guests = self._guests[: len(free)], self._guests[len(free) :]
        for slot, (link, hello) in zip(seated([hello.had for _, hello in guests], free), guests, strict=True):
            link.send(Seat(slot))
            self.links[slot] = link
            self.machines[slot] = hello.host

    def turn_away(self) -> None:
        """Send away one that comes too late, if there is one."""
        if (come := self._door.next()) is not None:
            come[0].close()

    def clear(self) -> None:
        """Close all connections."""
        for link in [*self.links.values(), *(link for link, _ in self._guests), *self._copies]:
            link.close()
        self.links.clear()
        self._copies.clear()
        self._guests.clear()
        self.asked = {}  # waiting callers get their answer, or hear that the slot is gone
        self.first = None
