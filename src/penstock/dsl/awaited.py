"""Steps that await async functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, overload

from penstock.dsl.functions import KEY_VALUE, VALUE
from penstock.dsl.graph import K, R, V
from penstock.dsl.results import annotated, value_type
from penstock.dsl.stream import Stream
from penstock.plan import names, nodes
from penstock.plan.awaiting import Awaiting, awaiting
from penstock.plan.functions import UserFunction, user_function
from penstock.processor import RecordContext
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream

CAPACITY = 100
"""How many calls run side by side unless the user says otherwise."""
_IN_LISTS = "with batch= a call gets lists of records, which have no context"


class AwaitedSteps(Stream[K, V]):
    """The steps of a stream that await; users have a ``KStream``."""

    @overload
    def map_values_async(
        self,
        mapper: Callable[[V], Awaitable[R]]
        | Callable[[K, V], Awaitable[R]]
        | Callable[[K, V, RecordContext], Awaitable[R]],
        value: Any = None,
        name: str | None = None,
        *,
        capacity: int = CAPACITY,
        timeout: Duration | None = None,
        retries: int = 0,
        ordered: bool = True,
        batch: None = None,
    ) -> KStream[K, R]: ...

    @overload
    def map_values_async(
        self,
        mapper: Callable[..., Awaitable[list[R]]],
        value: Any = None,
        name: str | None = None,
        *,
        capacity: int = CAPACITY,
        timeout: Duration | None = None,
        retries: int = 0,
        ordered: bool = True,
        batch: int,
    ) -> KStream[K, R]: ...

    def map_values_async(
        self,
        mapper: Callable[..., Awaitable[Any]],
        value: Any = None,
        name: str | None = None,
        *,
        capacity: int = CAPACITY,
        timeout: Duration | None = None,
        retries: int = 0,
        ordered: bool = True,
        batch: int | None = None,
    ) -> KStream[K, Any]:
        """Give each record a new value, from an async function of (value) or (key, value) that calls a service or a
        model.

        The calls of a chunk of records run side by side, in one event loop of the process. The commit waits for them.
        If a commit is repeated after a crash, its calls are repeated, too: calls happen at least once, and their
        results count exactly once.

        Args:
            mapper: the async function. If a call raises an error or takes longer than ``timeout``, and all ``retries``
                fail, its record fails, and ``on_error`` decides.
            value: the type of the results.
            name: the step's name.
            capacity: how many calls run side by side in each slot.
            timeout: the longest time of one call; by default there is no limit.
            retries: how often a failed call is repeated: after 0.1 seconds, 0.2, 0.4, and so on, up to 10.
            ordered: changes nothing. Results always keep the order of the stream: a commit shows them all at once, so
                another order would show none of them earlier (decision 0122).
            batch: the largest number of records in one call. The function then gets a list of values, or lists of keys
                and of values, and returns a list with a result for each. If such a call fails, and errors do not stop
                the program, Penstock tries each of its records alone.

        Raises:
            TopologyError: the function is not async, or a number is out of range.

        >>> from penstock.testing import pipe
        >>> async def score(value: int) -> int:
        ...     return value * 10
        >>> async def scores(values: list[int]) -> list[int]:
        ...     return [value * 10 for value in values]
        >>> pipe(lambda stream: stream.map_values_async(score), [("a", 1), ("b", 2)])
        [('a', 10), ('b', 20)]
        >>> pipe(lambda stream: stream.map_values_async(scores, batch=64), [("a", 1), ("b", 2)])
        [('a', 10), ('b', 20)]
        """
        method = "map_values_async"
        how = awaiting(method, capacity, timeout, retries, ordered, batch)
        function = _function(mapper, method, how, VALUE, KEY_VALUE)
        said = annotated(function)
        values = value_type(value, said if batch is None else said.item, self._value)
        node = nodes.MapValuesAsync(
            name=self._name(names.MAP_VALUES_ASYNC, name), mapper=function, value=values, how=how, **self._at()
        )
        return self._next(node, value=values)

    def filter_async(
        self,
        predicate: Callable[..., Awaitable[Any]],
        name: str | None = None,
        *,
        capacity: int = CAPACITY,
        timeout: Duration | None = None,
        retries: int = 0,
        ordered: bool = True,
        batch: int | None = None,
    ) -> KStream[K, V]:
        """Keep the records for which an async function of (key, value) is true; for the arguments, see
        ``map_values_async``.

        >>> from penstock.testing import pipe
        >>> async def is_known(key, value):
        ...     return value > 1
        >>> pipe(lambda stream: stream.filter_async(is_known), [("a", 1), ("b", 2)])
        [('b', 2)]
        """
        how = awaiting("filter_async", capacity, timeout, retries, ordered, batch)
        function = _function(predicate, "filter_async", how, KEY_VALUE)
        name = self._name(names.FILTER_ASYNC, name)
        return self._next(nodes.FilterAsync(name=name, predicate=function, how=how, **self._at()))


def _function(call: Any, method: str, how: Awaiting, *parameters: tuple[str, ...]) -> UserFunction:
    is_one = how.batch is None
    return user_function(call, method, *parameters, context=is_one, why_not="" if is_one else _IN_LISTS)
