"""Answers to typed queries, partition by partition."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.errors import ConfigError, PenstockError
from penstock.query import typed
from penstock.query.key_value import KeyValueView
from penstock.query.position import Position
from penstock.query.session import SessionView
from penstock.query.typed import Query, StateQueryRequest
from penstock.query.versioned import VersionedView
from penstock.query.versions import Pinned, Version
from penstock.query.view import View
from penstock.query.window import WindowView
from penstock.record import ValueAndTimestamp


class FailureReason(Enum):
    """Why a partition has no answer.

    >>> FailureReason.NOT_UP_TO_BOUND.value
    'the input is not processed as far as was asked for'
    """

    UNKNOWN_QUERY_TYPE = "the store does not answer queries of this type"
    NOT_UP_TO_BOUND = "the input is not processed as far as was asked for"
    DOES_NOT_EXIST = "the store has no such partition"
    STORE_EXCEPTION = "the store raised"


@dataclass(frozen=True)
class QueryResult:
    """The answer of one partition, or why there is none.

    >>> QueryResult(value=3).result, QueryResult(failure_reason=FailureReason.DOES_NOT_EXIST).is_success
    (3, False)
    """

    value: Any = None
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    position: Position = field(default_factory=Position)
    """Up to where the input is processed that is shown."""
    execution_info: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether there is an answer."""
        return self.failure_reason is None

    @property
    def is_failure(self) -> bool:
        """Whether there is none."""
        return not self.is_success

    @property
    def result(self) -> Any:
        """The answer.

        Raises:
            ConfigError: there is none; it says why.
        """
        if self.failure_reason is not None:
            raise ConfigError(f"the query failed ({self.failure_reason.name}): {self.failure_message}")
        return self.value


@dataclass(frozen=True)
class StateQueryResult:
    """The answers of all partitions, which are of one commit.

    >>> answer = StateQueryResult({0: QueryResult(), 1: QueryResult(value=3)})
    >>> answer.only_partition_result.result
    3
    """

    partition_results: dict[int, QueryResult]

    @property
    def only_partition_result(self) -> QueryResult | None:
        """The answer of the one partition that has something; None when none has.

        Raises:
            ConfigError: several have.
        """
        found = [one for one in self.partition_results.values() if one.is_failure or one.value is not None]
        if len(found) > 1:
            raise ConfigError(
                f"{len(found)} partitions gave results, and only_partition_result is for one; use partition_results"
            )
        return found[0] if found else None

    @property
    def position(self) -> Position:
        """Up to where the input is processed that all answers together show."""
        return Position.merged(one.position for one in self.partition_results.values())


def answered(view: View, request: StateQueryRequest) -> StateQueryResult:
    """What a store answers to a request; raises ``ConfigError`` when the request has no query."""
    if request.query is None:
        raise ConfigError(f"the request to the store {request.store!r} has no query; add one by with_query(...)")
    version = view.version
    there = {int(task.partition("_")[2]): task for task in version.tasks}
    asked = sorted(there if request.partitions is None else request.partitions)
    return StateQueryResult(
        {partition: _of(view, version, there.get(partition), partition, request) for partition in asked}
    )


def _of(view: View, version: Version, task: str | None, partition: int, request: StateQueryRequest) -> QueryResult:
    if task is None:
        message = f"the store {view.name!r} has no partition {partition}, or nothing is committed there yet"
        return QueryResult(failure_reason=FailureReason.DOES_NOT_EXIST, failure_message=message)
    position = version.positions.get(task, Position.empty())
    if not position.reaches(request.position_bound.position, partition):
        message = f"partition {partition} of the store {view.name!r} is at {_shown(position)}, and was asked for "
        message += f"{_shown(request.position_bound.position)}; ask again"
        return QueryResult(None, FailureReason.NOT_UP_TO_BOUND, message, position)
    assert request.query is not None
    answer = _ANSWERS.get((type(request.query), type(view)))
    if answer is None or not _fits(request.query, view):
        message = f"a {type(view).__name__.removesuffix('View')} store such as {view.name!r} does not answer "
        return QueryResult(None, FailureReason.UNKNOWN_QUERY_TYPE, message + f"{request.query}", position)
    began = time.perf_counter()
    own = type(view)(Pinned(Version(version.commit, {task: version.tasks[task]})), view.shape)
    try:
        value = answer(own, request.query)
    except PenstockError as error:
        return QueryResult(None, FailureReason.STORE_EXCEPTION, str(error), position)
    took = (f"{task} at commit {version.commit}: {(time.perf_counter() - began) * 1e6:.0f} us",)
    return QueryResult(value, position=position, execution_info=took if request.has_execution_info else ())


def _shown(position: Position) -> str:
    return ", ".join(f"{t}-{p}: {o}" for t, parts in position.offsets.items() for p, o in parts.items()) or "nothing"


def _fits(query: Query | None, view: View) -> bool:
    """Whether a query for sessions or windows is for one of these."""
    return not isinstance(query, typed.WindowRangeQuery) or (query.key is None) == isinstance(view, WindowView)


def _ranged(view: KeyValueView, query: typed.RangeQuery) -> Any:
    return ((key, value) for key, value, _ in view.range(query.lower, query.upper, query.descending))


def _ranged_with_timestamps(view: KeyValueView, query: typed.RangeQuery) -> Any:
    rows = view.range(query.lower, query.upper, query.descending)
    return ((key, ValueAndTimestamp(value, timestamp)) for key, value, timestamp in rows)


_ANSWERS: dict[tuple[type[Query], type[View]], Callable[[Any, Any], Any]] = {
    (typed.KeyQuery, KeyValueView): lambda view, query: view.get(query.key),
    (typed.TimestampedKeyQuery, KeyValueView): lambda view, query: view.get_with_timestamp(query.key),
    (typed.RangeQuery, KeyValueView): _ranged,
    (typed.TimestampedRangeQuery, KeyValueView): _ranged_with_timestamps,
    (typed.WindowKeyQuery, WindowView): lambda view, query: view.fetch(query.key, query.earliest, query.latest),
    (typed.WindowRangeQuery, WindowView): lambda view, query: view.fetch_all(query.earliest, query.latest),
    (typed.WindowRangeQuery, SessionView): lambda view, query: view.fetch(query.key),
    (typed.VersionedKeyQuery, VersionedView): lambda view, query: view.get_version(query.key, query.time),
    (typed.MultiVersionedKeyQuery, VersionedView): lambda view, query: view.versions(
        query.key, query.earliest, query.latest, reverse=not query.ascending
    ),
}
