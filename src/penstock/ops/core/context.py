"""The context that a task gives its operators: facts, notes, and the handling of records that fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.arrays import IntArray
from penstock.columns.batch import NO_RECORD, Batch, Order
from penstock.columns.column import BytesColumn
from penstock.errors import ProcessingError, RegistryError
from penstock.figures.metrics import (
    DEAD_LETTERS,
    DROPPED,
    E2E_LATENCY,
    EXPIRED,
    LATE,
    SKIPPED,
    Metric,
    combined,
    recorded,
)
from penstock.handlers import DESERIALIZATION, PROCESSING, ErrorHandlerContext
from penstock.messages import describe
from penstock.ops.core.conversions import undecodable, unencodable, without
from penstock.ops.core.failures import Failure, misfit, way_out_of_reading
from penstock.ops.core.notes import ChunkNotes, CommitNotes, DeadLetter, TaskFacts
from penstock.plan.functions import UserFunction
from penstock.state.kinds.versioned.puts import VersionedPuts

_log = logging.getLogger(__name__)

CLOSED_WINDOW = "expired-window"
"""The reason of drops that count as late records."""


class Context:
    """One task's surroundings, as its operators see them: facts that last as long as the task, notes for one commit,
    and notes for one chunk."""

    def __init__(self, facts: TaskFacts, commit: CommitNotes | None = None, chunk: ChunkNotes | None = None):
        self.facts = facts
        self.commit = commit or CommitNotes()
        self.chunk = chunk or ChunkNotes()
        self.on_rollback: list[Callable[[], None]] = []
        """Called when the task's writes since the last commit have been undone."""
        self.is_traced = False
        """True if figures of the recording level ``TRACE`` are wanted."""
        self.held_records = 0
        """The number of updates that the caches of tables hold until the commit."""
        self.caches_send = False
        """True while caches send what they hold, at the end of a commit."""
        self.look: Callable[[int], None] = lambda pending: None
        """Called now and then by steps that work record by record, with the number of rows that they have changed in no
        store yet. It raises if the task has made too many uncommitted writes, and nothing of the chunk counts."""
        self.sent_records = 0
        """The updates that caches have sent which they held before, each key once."""

    def uncounted(self) -> Context:
        """Return this context for work that another task counts already."""
        facts = replace(self.facts, handlers=replace(self.facts.handlers, counts=False))
        context = Context(facts, CommitNotes(failed=self.commit.failed), self.chunk)
        context.on_rollback = self.on_rollback
        return context

    def of_old_values(self) -> Context:
        """Return this context for functions of previous values: failures were counted when those values were new."""
        return _OfOldValues(self.facts, self.commit, self.chunk)

    def put(self, store: str, puts: VersionedPuts, order: Order) -> None:
        """Write puts into a versioned store: at the end of the chunk if another step looks up earlier versions in it,
        and at once otherwise."""
        asked = self.facts.joined_completely if self.chunk.is_depth_first else self.facts.looked_up_as_of
        if store in asked:
            self.chunk.puts[store] = puts, order
        else:
            puts.apply()

    def read(self, node: str, batch: Batch, *names: str) -> Batch:
        """Return the batch as Kafka Streams' deserializers give it: null where bytes decode to None, and without the
        records whose columns do not decode. Columns outside ``names`` are decoded only if their serde may give None.

        Args:
            names: the columns whose contents the step uses.
        """
        for name in ("key", "value", "old"):
            column = getattr(batch, name, None)
            if not isinstance(column, BytesColumn):
                continue
            if column.serde.gives_none:
                batch = self.decoded(node, batch, name)
                column = getattr(batch, name)
            found = column.read()
            if found is not column:
                batch = batch.with_key(found) if name == "key" else replace(batch, **{name: found})  # type: ignore[arg-type]
        return self.decoded(node, batch, *names)

    def decoded(self, node: str, batch: Batch, *names: str) -> Batch:
        """Return the batch without the records whose columns do not decode.

        Args:
            names: columns; in place of ``value``, ``fields`` for its plain fields and nothing else of it.
        """
        for name in names:
            column = batch.value if name == "fields" else getattr(batch, name, None)
            if name == "fields" and isinstance(column, BytesColumn) and column.fields():
                continue
            if column is None or not (errors := undecodable(column)):
                continue
            for row, error in errors:
                position = int(batch.position[row])
                source = self.facts.known.types.get(self.facts.origin(position).topic)
                way_out = way_out_of_reading(name, column.serde, source)
                self.failed(node, position, error, way_out=way_out, kind=DESERIALIZATION)
            batch = without(batch, errors)
        return batch

    def encoded(self, node: str, batch: Batch, *names: str, kind: str = PROCESSING) -> Batch:
        """Return the batch without the records whose columns do not encode."""
        for name in names:
            column = getattr(batch, name, None)
            if column is None or not (errors := unencodable(column)):
                continue
            for row, error in errors:
                maker = self.facts.known.maker(node, name)
                problem, way_out = misfit(name, column.serde, error, maker)
                function = None if maker is None else maker.function
                self.failed(node, int(batch.position[row]), problem, function, way_out, kind)
            batch = without(batch, errors)
        return batch

    def count(self, name: str, node: str, by: int = 1, reason: str = "") -> None:
        """Add to a counter, or combine a figure with the ones recorded so far (see ``penstock.figures.metrics``)."""
        self.add(Metric(name, node, reason), by)

    def add(self, metric: Metric, by: int) -> None:
        """Combine a figure with the ones recorded so far."""
        counted = self.commit.metrics
        counted[metric] = combined(metric.name, counted[metric], by) if metric in counted else by

    def observe(self, name: str, node: str, figures: IntArray) -> None:
        """Record figures of which the minimum, the maximum and the average are kept."""
        for one, figure in recorded(name, figures).items():
            self.count(one, node, figure)

    def see(self, name: str, by: int = 1, node: str = "", topic: str = "", scope: str = "") -> None:
        """Add to a figure that depends on the clock or on where commits are."""
        metric, seen = Metric(name, node, topic, scope=scope), self.commit.observed
        seen[metric] = combined(name, seen[metric], by) if metric in seen else by

    def see_latency(self, node: str, timestamps: IntArray, scope: str = "") -> None:
        """Record the age of records by the wall clock, in milliseconds, when they enter or leave (KIP-613)."""
        for one, figure in recorded(E2E_LATENCY, self.facts.wall_clock_ms() - timestamps).items():
            self.see(one, figure, node, scope=scope)

    def drop(self, node: str, positions: IntArray, reason: str) -> None:
        """Count records that an operator leaves out by Kafka's rules."""
        if len(positions):
            self.count(DROPPED, node, len(positions), reason)
            if reason == CLOSED_WINDOW:
                self.count(LATE, node, len(positions))
            if self.commit.dropped_positions is not None:
                self.commit.dropped_positions.append(positions)
            if _log.isEnabledFor(logging.DEBUG):
                self._log_drops(node, positions, reason)

    def expired(self, store: str, kind: str, count: int) -> None:
        """Count records that a store refused because its retention has passed.

        Args:
            kind: ``window`` or ``session``.
        """
        if count:
            self.count(EXPIRED, store, count, kind)

    def _log_drops(self, node: str, positions: IntArray, reason: str) -> None:
        for position in positions.tolist():
            at = self.facts.origin(position)
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
        kind: str = PROCESSING,
    ) -> None:
        """Handle a record that failed in a node: raise, or count it as left out. A record is counted once, however
        often it fails.

        Args:
            kind: ``deserialization``, ``processing`` or ``production``.

        Raises:
            ProcessingError: the handler stops the program for records that fail.
            RegistryError: a schema registry failed, not the record.
        """
        if isinstance(error, RegistryError):
            raise error
        failure = Failure(node, self.facts.origin(position), error, function, way_out)
        answer = self._answer(failure, kind)
        if answer == "fail":
            raise ProcessingError(failure.message(self.facts.known)) from error
        if position in self.commit.failed:
            return
        if position != NO_RECORD:
            self.commit.failed.add(position)
        if answer == "continue":
            self.count(SKIPPED, node, reason=type(error).__name__)
            return
        self.count(DEAD_LETTERS, node, reason=type(error).__name__)
        self.commit.dead_letters.append(DeadLetter(failure.origin, failure.headers()))

    def _answer(self, failure: Failure, kind: str) -> str:
        """Ask the handler what to do: ``fail``, ``continue`` or ``dead_letter``."""
        at, node, error = failure.origin, failure.node, failure.error

        def context() -> ErrorHandlerContext:
            place = at.topic, at.partition, at.offset, at.timestamp, at.key, at.value
            return ErrorHandlerContext(kind, *place, node, self.facts.task, error, at.headers)

        try:
            return self.facts.handlers.answer(context, kind)
        except Exception as problem:
            raise ProcessingError(
                f"{node} failed on the record at topic {at.topic!r}, partition {at.partition}, offset {at.offset} "
                f"({describe(error)}), and then the handler of {kind} errors did: {describe(problem)}\n"
                "  nothing of this batch was committed; fix the handler and start again"
            ) from problem


class _OfOldValues(Context):
    """Context for running a function again on a previous value. The failure was counted when that value was new, so it
    is ignored unless failures stop the program."""

    def failed(
        self,
        node: str,
        position: int,
        error: BaseException,
        function: UserFunction | None = None,
        way_out: str = "",
        kind: str = PROCESSING,
    ) -> None:
        if self.facts.handlers.always_fail(kind) or isinstance(error, RegistryError):
            super().failed(node, position, error, function, way_out, kind)
