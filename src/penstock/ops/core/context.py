"""What a task lends its operators: counters, stream times, and what to do with a record that fails."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import Binary, IntArray, is_too_large
from penstock.batch import NO_RECORD, Batch, Order
from penstock.columns import Column
from penstock.errors import ProcessingError
from penstock.metrics import DEAD_LETTERS, DROPPED, EXPIRED, LATE, SKIPPED, Metric, combined
from penstock.ops.core.failures import Failure, Known, Origin, way_out_of_reading, way_out_of_writing
from penstock.ops.foreign_key.left_changes import LeftChanges
from penstock.ops.tables.written import Written
from penstock.plan.functions import UserFunction
from penstock.serdes import Serde
from penstock.state.kinds.versioned.puts import VersionedPuts

_log = logging.getLogger(__name__)

CLOSED_WINDOW = "expired-window"
"""The reason of drops that count as late records."""


class DeadLetter(NamedTuple):
    """A record that failed, and why."""

    origin: Origin
    reason: dict[str, str]


class Context:
    """One task's surroundings, as its operators see them.

    Args:
        task: the task's name, such as ``0_1``.
        on_error: ``fail``, ``skip`` or ``dead_letter``.
        origin: finds where the record at a position came from.
        offsets: the offsets of the records at some positions, -1 for those that no record of a topic caused.
    """

    def __init__(
        self,
        task: str,
        on_error: str,
        origin: Callable[[int], Origin],
        offsets: Callable[[IntArray], IntArray] | None = None,
        topic_bytes: Callable[[IntArray], IntArray] | None = None,
    ):
        self.task = task
        self.emit_interval_ms = 0
        """Wall-clock time between two looks for windows that have closed."""
        self.wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.topic_bytes = topic_bytes or (lambda positions: np.zeros(len(positions), np.int64))
        """How long the topics' names are that records at some positions, ascending, came from."""
        self.metrics: dict[Metric, int] = {}
        self.written: dict[str, Written] = {}
        """What the present chunk has written into the stores that others look things up in, by their names."""
        self.looked_up: frozenset[str] = frozenset()
        """The stores whose writes are to be noted in ``written``."""
        self.sent: dict[str, Written] = {}
        """What a commit sends on of the tables that held it back, by the names of their stores."""
        self.puts: dict[str, tuple[VersionedPuts, Order]] = {}
        """What the present chunk puts into the versioned stores in which others look up what was valid at a time."""
        self.looked_up_as_of: frozenset[str] = frozenset()
        """Those stores."""
        self.left_changes: dict[str, LeftChanges] = {}
        """What the present chunk changes in the left tables of foreign-key joins, by the steps that send it."""
        self.overtaking: set[str] = set()
        """The steps that send these where, in this commit, any change may overtake one of its key before it."""
        self.subscribed_overtaking: defaultdict[str, list[Binary]] = defaultdict(list)
        """The keys of the subscriptions that these have sent in this commit, by the stores that hold them."""
        self.known = Known()
        """What the topology tells about keys and values, for messages."""
        self.dead_letters: list[DeadLetter] = []
        self._failed: set[int] = set()
        """The positions of the records that have failed in this commit: each is counted once, where it failed first."""
        self.roots: Callable[[IntArray], IntArray] | None = None
        """The numbers of the input records which caused, through internal topics, those at some positions; None where
        that is not known."""
        self.dropped_positions: list[IntArray] | None = None
        """For tests: the positions of dropped records, when it is a list."""
        self.more_is_waiting = False
        """When a commit begins, and when it ends: whether something that was read before is still on its way here."""
        self.commits_each_record = False
        """Whether each record is a commit of its own and causes one update of a key at most, also where many records
        come at once."""
        self.replays = False
        """Whether a record may come for a second time, on state that it has changed already."""
        self.offsets = offsets or (lambda positions: np.full(len(positions), -1, np.int64))
        self._on_error = on_error
        self._origin = origin

    def topic_bytes_of(self, batch: Batch) -> IntArray:
        """How long the name of the topic is that each record came from."""
        if batch.topic_bytes is None:
            return self.topic_bytes(batch.position)
        unknown = np.flatnonzero(batch.topic_bytes < 0)
        sizes = batch.topic_bytes.copy()
        if unknown.size:
            sizes[unknown] = self.topic_bytes(batch.position[unknown])
        return sizes

    def uncounted(self) -> Context:
        """The same surroundings, for work that another task counts."""
        kind = self._on_error if self._on_error == "fail" else "skip"
        same = Context(self.task, kind, self._origin)
        same.written, same.looked_up, same._failed = self.written, self.looked_up, self._failed
        same.known = self.known
        same.sent = self.sent
        return same

    def put(self, store: str, puts: VersionedPuts, order: Order) -> None:
        """Have puts into a versioned store written: at once, or at the end of the chunk if somebody looks up what was
        valid in between."""
        if store in self.looked_up_as_of:
            self.puts[store] = puts, order
        else:
            puts.apply()

    def begin_commit(self, more_is_waiting: bool) -> None:
        """Count anew."""
        self.metrics.clear()
        self.forget_failures()
        self.overtaking.clear()
        self.subscribed_overtaking.clear()
        self.more_is_waiting = more_is_waiting

    def forget_failures(self) -> None:
        """A record at a position that has failed before is another one from now on."""
        self._failed.clear()

    def begin_chunk(self) -> None:
        """Forget what the chunk before has written."""
        self.written.clear()
        self.sent.clear()
        self.left_changes.clear()

    def end_chunk(self) -> None:
        """Write what was put off."""
        for puts, _ in self.puts.values():
            puts.apply()
        self.puts.clear()

    def count(self, name: str, node: str, by: int = 1, reason: str = "") -> None:
        """Add to a counter, or take one figure into what is kept of all (see ``penstock.metrics``)."""
        metric = Metric(name, node, reason)
        self.metrics[metric] = combined(name, self.metrics[metric], by) if metric in self.metrics else by

    def observe(self, name: str, node: str, figures: IntArray) -> None:
        """Record figures of which the least, the largest and the average are kept."""
        if len(figures):
            self.count(f"{name}-recordings", node, len(figures))
            self.count(f"{name}-sum", node, int(figures.sum()))
            self.count(f"{name}-min", node, int(figures.min()))
            self.count(f"{name}-max", node, int(figures.max()))

    def drop(self, node: str, positions: IntArray, reason: str) -> None:
        """Count records that an operator leaves out by Kafka's rules."""
        if len(positions):
            self.count(DROPPED, node, len(positions), reason)
            if reason == CLOSED_WINDOW:
                self.count(LATE, node, len(positions))
            if self.dropped_positions is not None:
                self.dropped_positions.append(positions)
            if _log.isEnabledFor(logging.DEBUG):
                self._log_drops(node, positions, reason)

    def expired(self, store: str, kind: str, count: int) -> None:
        """Count records that a store did not take because its retention has passed.

        Args:
            kind: ``window`` or ``session``.
        """
        if count:
            self.count(EXPIRED, store, count, kind)

    def _log_drops(self, node: str, positions: IntArray, reason: str) -> None:
        for position in positions.tolist():
            at = self._origin(position)
            _log.debug(
                "%s drops topic %s, partition %d, offset %d: %s", node, at.topic, at.partition, at.offset, reason
            )

    def failed(
        self,
        node: str,
        position: int,
        error: BaseException,
        function: UserFunction | None = None,
        way_out: str = "",
    ) -> None:
        """A record failed in a node: raise, or count it as left out, once however often it fails.

        Raises:
            ProcessingError: records that fail are to stop the program.
        """
        failure = Failure(node, self._origin(position), error, function, way_out)
        if self._on_error == "fail":
            raise ProcessingError(failure.message(self.known)) from error
        if position in self._failed:
            return
        if position != NO_RECORD:
            self._failed.add(position)
        if self._on_error == "skip":
            self.count(SKIPPED, node, reason=type(error).__name__)
            return
        self.count(DEAD_LETTERS, node, reason=type(error).__name__)
        self.dead_letters.append(DeadLetter(failure.origin, failure.reason()))

    # --- columns that may not decode or encode -------------------------------------------------------------------

    def decoded(self, node: str, batch: Batch, *columns: str) -> Batch:
        """The batch without the records whose columns do not decode."""
        return self._checked(node, batch, columns, lambda column: column.decoded(), _undecodable, self._unread)

    def encoded(self, node: str, batch: Batch, *columns: str) -> Batch:
        """The batch without the records whose columns do not encode."""
        return self._checked(node, batch, columns, lambda column: column.encoded(), _unencodable, self._unwritten)

    def _checked(
        self,
        node: str,
        batch: Batch,
        names: tuple[str, ...],
        read: Callable[[Column], Any],
        errors_of: Callable[[Column], list[tuple[int, BaseException]]],
        tell: Callable[[str, int, BaseException, str, Serde], None],
    ) -> Batch:
        for name in names:
            column = getattr(batch, name, None)
            if column is None:
                continue
            try:
                read(column)
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                if is_too_large(problem):
                    raise
                errors = errors_of(column)
                if not errors:  # it is the column as a whole that fails, which no serde of ours does
                    errors = [(row, problem) for row in range(len(batch))]
                for row, error in errors:
                    tell(node, int(batch.position[row]), error, name, column.serde)
                batch = batch.take(np.setdiff1d(np.arange(len(batch)), [row for row, _ in errors]))
        return batch

    def _unread(self, node: str, position: int, error: BaseException, column: str, serde: Serde) -> None:
        source = self.known.types.get(self._origin(position).topic)
        self.failed(node, position, error, way_out=way_out_of_reading(column, serde, source))

    def _unwritten(self, node: str, position: int, error: BaseException, column: str, serde: Serde) -> None:
        function = self.known.maker(node, column)
        self.failed(node, position, error, function, way_out_of_writing(column, serde, error))


def _undecodable(column: Column) -> list[tuple[int, BaseException]]:
    return _errors(column.encoded().to_pylist(), column.serde.decode)


def _unencodable(column: Column) -> list[tuple[int, BaseException]]:
    return _errors(column.decoded(), lambda value: column.serde.encode_all([value]))


def _errors(values: list[Any], convert: Callable[[Any], Any]) -> list[tuple[int, BaseException]]:
    errors: list[tuple[int, BaseException]] = []
    for row, value in enumerate(values):
        try:
            if value is not None:
                convert(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            errors.append((row, error))
    return errors


class Looks:
    """How often an operator looks for what has waited long enough: ``emit_interval_ms`` of wall clock apart."""

    def __init__(self, context: Context):
        self._context = context
        self._next = 0

    def is_due(self) -> bool:
        """Whether it is time to look; if so, the next time begins."""
        interval = self._context.emit_interval_ms
        if not interval:
            return True
        now = self._context.wall_clock_ms()
        if now < self._next:
            return False
        self._next = now + interval
        return True
