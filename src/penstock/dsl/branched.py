"""A stream that is being split into branches (KIP-418), and the streams that replace them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.functions import OfKeyValue
from penstock.dsl.graph import K, V
from penstock.dsl.predicates import branch_of
from penstock.errors import ConfigError, TopologyError
from penstock.messages import nearest
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, caller, check_type, refuse_unusable
from penstock.plan.names import check_name, check_name_if_given
from penstock.plan.options import Options, in_place_of, option, said_once
from penstock.processor import RecordContext
from penstock.usage.calls import refuse_result
from penstock.usage.java_names import KafkaNames

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream


Chain = Callable[["KStream[Any, Any]"], "KStream[Any, Any] | None"]
"""A function that takes a branch and returns the stream that stands for it, or None."""


@dataclass(frozen=True)
class Branched(Options):
    """The name of a branch, and the steps that follow it.

    >>> from penstock.testing import pipe
    >>> def twice(branch):
    ...     return branch.map_values(lambda value: 2 * value)
    >>> def big_ones(stream):
    ...     big = Branched.with_function(twice, "big")
    ...     return stream.split().branch(lambda key, value: value > 9, big).no_default_branch()["big"]
    >>> pipe(big_ones, [("a", 1), ("b", 10)])
    [('b', 20)]
    """

    name: str | None = None
    function: Chain | None = None
    consumer: Callable[[KStream[Any, Any]], Any] | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)
        if self.function is not None and self.consumer is not None:
            raise ConfigError(
                "a Branched takes a function, whose stream replaces the branch, or a consumer, after which the branch "
                "ends, but not both; give one of the two"
            )

    @option
    def as_(self, name: str) -> Branched:
        """With a name for the branch in the results."""
        return self._but(name=check_name(name))

    @option
    def with_function(self, chain: Chain, name: str | None = None) -> Branched:
        """With a function of the branch; the stream that it returns replaces the branch in the results. If it returns
        None, the results have neither."""
        return self._chained(name, function=chain)

    @option
    def with_consumer(self, chain: Callable[[KStream[Any, Any]], Any], name: str | None = None) -> Branched:
        """With a function that takes the branch and adds steps to it; the branch is not in the results."""
        return self._chained(name, consumer=chain)

    @option
    def with_name(self, name: str) -> Branched:
        """With a name for the branch in the results."""
        return self._but(name=check_name(name))

    def _chained(self, name: str | None, **chain: Any) -> Branched:
        for given in chain.values():
            if not callable(given):
                raise TopologyError(f"Branched at {caller()} takes a function of a stream; got {given!r}")
            refuse_unusable(given, "Branched", caller())
        chained = self._but(**chain)
        return chained if name is None else chained.with_name(name)

    def result(self, branch: KStream[K, V]) -> KStream[Any, Any] | None:
        """The stream that stands for a branch, or None."""
        if self.consumer is not None:
            refuse_result(self.consumer(branch), "the function of a branch", TopologyError)
            return None
        return branch if self.function is None else self.function(branch)


class BranchedKStream(KafkaNames, Generic[K, V]):
    """A stream that is being split. Call ``branch`` for each branch, and at the end ``default_branch`` or
    ``no_default_branch``.

    >>> from penstock import StreamsBuilder
    >>> numbers = StreamsBuilder().stream("numbers", value=int)
    >>> branches = numbers.split().branch(lambda key, value: value > 9, "big").default_branch("small")
    >>> sorted(branches)
    ['big', 'small']
    """

    def __init__(self, stream: KStream[K, V], node: nodes.Split, prefix: str):
        self._stream = stream
        self._node = node
        self._prefix = prefix
        self._streams: dict[str, KStream[K, V]] = _Branches()

    @overload
    def branch(
        self,
        predicate: Callable[[K, V], Any],
        name: str | Branched | None = None,
        branched: Branched | None = None,
    ) -> BranchedKStream[K, V]: ...

    @overload
    def branch(
        self,
        predicate: Callable[[K, V, RecordContext], Any],
        name: str | Branched | None = None,
        branched: Branched | None = None,
    ) -> BranchedKStream[K, V]: ...

    def branch(
        self,
        predicate: OfKeyValue[K, V, Any],
        name: str | Branched | None = None,
        branched: Branched | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch for the records that no earlier branch took and for which a function of (key, value) is true.

        Instead of a name, you can give a ``Branched``: as in Kafka Streams, or as ``branched=``.
        """
        if None in self._node.predicates:
            raise TopologyError(
                f"branch at {caller()} comes after default_branch of the split at {self._node.where}, which takes all "
                "other records; put it before"
            )
        given = _branched_of("branch", branched, name)
        self._add(branch_of(predicate), given, len(self._node.predicates) + 1)
        return self

    def default_branch(
        self, name: str | Branched | None = None, branched: Branched | None = None
    ) -> dict[str, KStream[K, V]]:
        """Add a branch for all other records, and return all branches by name (unnamed ones by number, this one 0).

        It takes a ``Branched`` like ``branch``.
        """
        if None in self._node.predicates:
            raise TopologyError(
                f"default_branch at {caller()}: the split at {self._node.where} has a default branch; remove one"
            )
        self._add(None, _branched_of("default_branch", branched, name), 0)
        return self._streams

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drop all other records, and return all branches by name (unnamed ones by number, from 1)."""
        return self._streams

    def _add(self, predicate: UserFunction | None, given: Branched, number: int) -> None:
        from penstock.dsl.kstream import KStream

        graph, own_name = self._stream._graph, given.name if given.name is not None else str(number)
        child = names.check_name(self._node.name + own_name)
        graph.names.node(child)  # uses up a number, as in Kafka Streams
        node = nodes.Branch(name=child, parents=(self._node,), where=caller(), index=len(self._node.predicates))
        self._node.predicates.append(predicate)
        stream = self._stream
        branch: KStream[K, V] = KStream(
            graph, graph.add(node), stream._key, stream._value, stream._repartition_required
        )
        found = given.result(branch)
        if found is not None:
            check_type(found, KStream, f"what the function of the branch {own_name!r} gives")
            self._streams[self._prefix + own_name] = found


class _Branches(dict[str, Any]):
    """Branches by name; a missing name raises an error."""

    def __missing__(self, name: object) -> Any:
        there = ", ".join(map(repr, self)) or "none: each was given to a function"
        prefixed = next((one for one in self if one.endswith(str(name))), "")
        raise TopologyError(
            f"there is no branch {name!r} at {caller()}; there are {there}"
            + (f". split(...) puts its name in front: {prefixed!r}" if prefixed else nearest(str(name), self))
        )


def _branched_of(method: str, branched: Branched | None, name: str | Branched | None) -> Branched:
    """Turn the arguments of a branch into a ``Branched``: it may be given itself, also in the place of the name, or as
    a name."""
    given, own_name = in_place_of(Branched, name, branched, method, "branched")
    return said_once(method, "branched", given, Branched(name=own_name))
