"""Answers to typed queries, partition by partition."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, Self

from penstock.errors import ConfigError, PenstockError
from penstock.query.position import Position
from penstock.query.typed import Query, StateQueryRequest
from penstock.query.versions import Version

Answer = Callable[[Any], Any]
"""Returns a query's result."""
Answers = dict[type[Query], Answer]


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
    """The answer of one partition, or the reason of its failure.

    >>> QueryResult(value=3).result, QueryResult(failure_reason=FailureReason.DOES_NOT_EXIST).is_success
    (3, False)
    """

    value: Any = None
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    position: Position = field(default_factory=Position)
    """The position of the processed input that the answer shows."""
    execution_info: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether there is an answer."""
        return self.failure_reason is None

    @property
    def is_failure(self) -> bool:
        """Whether the partition did not answer."""
        return not self.is_success

    @property
    def result(self) -> Any:
        """The answer.

        Raises:
            ConfigError: the partition did not answer; the message says why.
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
        """The answer of the only partition with a result; None if no partition has one.

        Raises:
            ConfigError: several partitions have a result.
        """
        found = [one for one in self.partition_results.values() if one.is_failure or one.value is not None]
        if len(found) > 1:
            raise ConfigError(
                f"{len(found)} partitions gave results, and only_partition_result is for one; use partition_results"
            )
        return found[0] if found else None

    @property
    def position(self) -> Position:
        """The position of the processed input that all answers together show."""
        return Position.merged(one.position for one in self.partition_results.values())


class Answering(Protocol):
    """A view of a store, as far as typed queries need it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> Version: ...

    def _answer_to(self, query: Query) -> Answer | None:
        """Return the function that answers a query; None if the store does not answer queries of this type."""
        ...

    def _of_task(self, task: str, version: Version) -> Self:
        """The part of the store in one task, as of a version."""
        ...


def answered(view: Answering, request: StateQueryRequest) -> StateQueryResult:
    """Answer a request to a store; raises ``ConfigError`` if the request has no query."""
    if request.query is None:
        raise ConfigError(f"the request to the store {request.store!r} has no query; add one by with_query(...)")
    version = view.version
    there = {int(task.partition("_")[2]): task for task in version.tasks}
    asked = sorted(there if request.partitions is None else request.partitions)
    return StateQueryResult(
        {partition: _of(view, version, there.get(partition), partition, request) for partition in asked}
    )


def _of(view: Answering, version: Version, task: str | None, partition: int, request: StateQueryRequest) -> QueryResult:
    if task is None:
        message = f"the store {view.name!r} has no partition {partition}, or nothing is committed there yet"
        return QueryResult(failure_reason=FailureReason.DOES_NOT_EXIST, failure_message=message)
    position = version.positions.get(task, Position.empty())
    if not position.reaches(request.position_bound.position, partition):
        message = f"partition {partition} of the store {view.name!r} is at {_shown(position)}, and was asked for "
        message += f"{_shown(request.position_bound.position)}; ask again"
        return QueryResult(None, FailureReason.NOT_UP_TO_BOUND, message, position)
    assert request.query is not None
    if view._answer_to(request.query) is None:
        message = f"a {type(view).__name__.removesuffix('View')} store such as {view.name!r} does not answer "
        return QueryResult(None, FailureReason.UNKNOWN_QUERY_TYPE, message + f"{request.query}", position)
    began = time.perf_counter()
    answer = view._of_task(task, version)._answer_to(request.query)
    assert answer is not None
    try:
        value = answer(request.query)
    except PenstockError as error:
        return QueryResult(None, FailureReason.STORE_EXCEPTION, str(error), position)
    took = (f"{task} at commit {version.commit}: {(time.perf_counter() - began) * 1e6:.0f} us",)
    return QueryResult(value, position=position, execution_info=took if request.has_execution_info else ())


def _shown(position: Position) -> str:
    return ", ".join(f"{t}-{p}: {o}" for t, parts in position.offsets.items() for p, o in parts.items()) or "nothing"
