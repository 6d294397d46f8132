"""Lost records: dropped by Kafka's rules, skipped because they failed, or sent to the dead letters.

KIP-328 defines their names: late and expired records have separate counters, and dropped records never count as
skipped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.figures.metrics import BEYOND_HISTORY, DEAD_LETTERS, DROPPED, EXPIRED, LATE, REMOVED_UNREAD, SKIPPED

log = logging.getLogger("penstock.losses")

_SECONDS_BETWEEN_WARNINGS = 60.0

_LATE_WINDOW = "expired-window"
_EXPIRED = {"expired-window-of-store", "expired-put"}


class Loss(NamedTuple):
    """How many records a step left out for a reason.

    >>> Loss("late-record-drop-total", "hourly", "expired-window", 701).described
    '701 records dropped as late by hourly (expired-window)'
    """

    metric: str
    """The counter's Kafka name."""
    node: str
    reason: str
    """Why, in Kafka's words; for records that failed the kind of the error."""
    records: int

    @property
    def done(self) -> str:
        """The verb for these records."""
        return _DONE[self.metric]

    @property
    def described(self) -> str:
        """In one line, for people."""
        records = "1 record" if self.records == 1 else f"{self.records:,} records"
        return f"{records} {self.done} by {self.node} ({self.reason})"

    @property
    def why(self) -> str:
        """The meaning of the reason, and a remedy."""
        if self.metric in (SKIPPED, DEAD_LETTERS) and self.reason not in _WHY:
            return f"the step raised {self.reason}, or the record did not decode; fix the function or the records"
        return _WHY.get(self.reason, "Kafka Streams' rules drop such records here")

    @property
    def exceeds_a_limit(self) -> bool:
        """Whether a limit was exceeded. A null key or the like, which a program may expect, is no limit; nor is a late
        record, which KIP-328 reports only at ``DEBUG``.
        """
        return self.metric not in (DROPPED, LATE)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return self._asdict()


_COUNTERS = tuple(f"|{name}" for name in (DROPPED, SKIPPED, DEAD_LETTERS))
_DONE = {
    LATE: "dropped as late",
    EXPIRED: "dropped as expired",
    DROPPED: "dropped",
    SKIPPED: "skipped",
    DEAD_LETTERS: "sent to the dead letters",
    BEYOND_HISTORY: "older than the history, and so without a value of the table,",
}

_WHY = {
    "null-key": "they have no key; give them one with select_key or map, if they are to count",
    "null-key-or-value": "they have no key or no value, where both are needed",
    "null-value": "they have no value, where one is needed",
    "null-foreign-key": "the rows name no row of the other table",
    _LATE_WINDOW: "their windows had closed: stream time was past the end plus the grace period; a longer grace period "
    "accepts later records",
    "expired-window-of-store": "the store no longer had their windows; a longer retention "
    "(Materialized.with_retention) keeps them",
    "expired-put": "they are older than the history of the versioned store; a longer history_retention keeps them",
    "out-of-order": "the versioned table has newer rows of their keys, so they change no newest result (KIP-914); "
    'versioned_join="complete" gives the others as well',
    REMOVED_UNREAD: "retention removed them from the topic before they were read; a longer one keeps them",
    "invalid-timestamp": "they have a negative timestamp, or their extractor gave one",
    "RefusedRecordError": "their topic does not take them: they have no key and it is compacted, are too large, or "
    "have a time that is too far away; change what is written, or the topic's settings",
    "late-response": "a newer change of the row was under way already, so these are of no use to anybody",
}


def losses_of(labelled: Mapping[str, int]) -> dict[str, Loss]:
    """Return the losses in the metrics of a manifest, by the labels of the metrics."""
    found = {}
    for label, figure in labelled.items():
        if figure and label.endswith(_COUNTERS):
            _, node, reason, name = label.split("|")
            found[label] = Loss(_metric(name, reason), node, reason, figure)
    return found


def together(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Add up the losses of all tasks, by metric, step and reason, the most records first.

    >>> a, b = Loss("dropped-records-total", "a", "null-key", 1), Loss("dropped-records-total", "b", "null-key", 2)
    >>> [loss.records for loss in together([a, b, a])], together([a, b, a])[0].node
    ([2, 2], 'a')
    """
    sums: dict[tuple[str, str, str], int] = {}
    for metric, node, reason, records in losses:
        sums[metric, node, reason] = sums.get((metric, node, reason), 0) + records
    return tuple(Loss(*key, records) for key, records in sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def since(before: Iterable[Loss], now: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return the losses between two moments."""
    less = (loss._replace(records=-loss.records) for loss in before)
    return tuple(loss for loss in together([*now, *less]) if loss.records)


def _metric(name: str, reason: str) -> str:
    if name != DROPPED:
        return name
    return LATE if reason == _LATE_WINDOW else EXPIRED if reason in _EXPIRED else DROPPED


def _lookups_of(labelled: Mapping[str, int]) -> list[Loss]:
    """Return look-ups beyond a store's history. Their records are not lost: a left join adds null (KIP-914)."""
    labels = [label for label in labelled if label.endswith(f"|{BEYOND_HISTORY}")]
    return [Loss(BEYOND_HISTORY, label.split("|")[1], "history-retention", labelled[label]) for label in labels]


class LossCounter:
    """Counts the losses since a start, after every commit. At most once a minute it logs a warning, which includes
    look-ups beyond a versioned store's history.
    """

    def __init__(self, application_id: str, labelled: Mapping[str, int]):
        self._application_id = application_id
        self._first = tuple(losses_of(labelled).values())
        self._warned = (*self._first, *_lookups_of(labelled))
        self._next = float("-inf")

    def after(self, commit: int, labelled: Mapping[str, int]) -> tuple[Loss, ...]:
        """Return the losses since the start, after a commit with these metrics."""
        now = tuple(losses_of(labelled).values())
        self._warn(commit, (*now, *_lookups_of(labelled)))
        return since(self._first, now)

    def _warn(self, commit: int, now: tuple[Loss, ...]) -> None:
        news = [loss.described for loss in since(self._warned, now) if loss.exceeds_a_limit]
        if news and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS_BETWEEN_WARNINGS
            self._warned = now
            log.warning(
                "application %r, up to commit %d: %s; `penstock explain PROGRAM --losses` tells why and what helps",
                self._application_id,
                commit,
                "; ".join(news),
            )
