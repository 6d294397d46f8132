"""Steps that process each record by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from penstock.dsl.expressions import mapper_of, said_of
from penstock.dsl.functions import KEY_VALUE, VALUE, OfKeyValue
from penstock.dsl.graph import K2, V2, K, R, V
from penstock.dsl.predicates import predicate_of
from penstock.dsl.printed import Printed
from penstock.dsl.results import annotated, key_type, value_type
from penstock.dsl.stream import Stream
from penstock.plan import names, nodes
from penstock.plan.expressions.expression import Expression
from penstock.plan.expressions.typed import evaluation
from penstock.plan.functions import check_type, user_function
from penstock.processor import RecordContext

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream


class StatelessSteps(Stream[K, V]):
    """The stateless steps of a stream; users have a ``KStream``."""

    @overload
    def filter(self, predicate: Expression, name: str | None = None) -> KStream[K, V]: ...

    @overload
    def filter(
        self,
        predicate: Callable[[K, V], Any],
        name: str | None = None,
    ) -> KStream[K, V]: ...

    @overload
    def filter(
        self,
        predicate: Callable[[K, V, RecordContext], Any],
        name: str | None = None,
    ) -> KStream[K, V]: ...

    def filter(self, predicate: OfKeyValue[K, V, Any] | Expression, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which a function of (key, value), or a condition such as ``col("amount") > 20``, is
        true.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.filter(lambda key, value: value > 1), [("a", 1), ("b", 2)])
        [('b', 2)]
        """
        return self._filter(predicate, False, name)

    @overload
    def filter_not(self, predicate: Expression, name: str | None = None) -> KStream[K, V]: ...

    @overload
    def filter_not(
        self,
        predicate: Callable[[K, V], Any],
        name: str | None = None,
    ) -> KStream[K, V]: ...

    @overload
    def filter_not(
        self,
        predicate: Callable[[K, V, RecordContext], Any],
        name: str | None = None,
    ) -> KStream[K, V]: ...

    def filter_not(self, predicate: OfKeyValue[K, V, Any] | Expression, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which a function of (key, value), or a condition such as ``col("amount") > 20``, is
        false.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.filter_not(lambda key, value: value > 1), [("a", 1), ("b", 2)])
        [('a', 1)]
        """
        return self._filter(predicate, True, name)

    def _filter(self, predicate: OfKeyValue[K, V, Any] | Expression, negate: bool, name: str | None) -> KStream[K, V]:
        if isinstance(predicate, Expression):
            function = evaluation(predicate, "filter_not" if negate else "filter", self._value, is_truth=True)
        else:
            function = predicate_of(predicate, negate)
        node = nodes.Filter(name=self._name(names.STREAM_FILTER, name), predicate=function, negate=negate, **self._at())
        return self._next(node)

    @overload
    def map(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...

    @overload
    def map(
        self,
        mapper: Callable[[K, V, RecordContext], tuple[K2, V2]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...

    def map(
        self,
        mapper: OfKeyValue[K, V, tuple[K2, V2]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Turn each record into a new key and value, with a function of (key, value). A later group or join
        repartitions.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.map(lambda key, value: (value, key), key=str, value=str), [("a", "x")])
        [('x', 'a')]
        """
        function = user_function(mapper, "map", KEY_VALUE, hint="did you mean map_values?", context=True)
        said = annotated(function)
        keys, values = key_type(key, said.key, self._key), value_type(value, said.value, self._value)
        node = nodes.Map(name=self._name(names.MAP, name), mapper=function, key=keys, value=values, **self._at())
        return self._next(node, key=keys, value=values)

    @overload
    def map_values(self, mapper: Callable[[V], R], value: Any = None, name: str | None = None) -> KStream[K, R]: ...

    @overload
    def map_values(self, mapper: Callable[[K, V], R], value: Any = None, name: str | None = None) -> KStream[K, R]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[K, V, RecordContext], R],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def map_values(self, mapper: Expression, value: Any = None, name: str | None = None) -> KStream[K, Any]: ...

    @overload
    def map_values(self, mapper: type[R], value: Any = None, name: Any = None, **fields: Any) -> KStream[K, R]: ...

    def map_values(
        self,
        mapper: Callable[..., Any] | Expression,
        value: Any = None,
        name: Any = None,
        **fields: Any,
    ) -> KStream[K, Any]:
        """Give each record a new value, from a function of (value) or (key, value), or from an expression.

        With a class and an expression for each field, the values are objects of this class:
        ``map_values(Slim, id=col("id"), amount=col("amount") * 2)``.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.map_values(lambda value: value + 1), [("a", 1)])
        [('a', 2)]
        """
        if isinstance(value, Expression):
            value, fields = None, {"value": value, **fields}
        if isinstance(name, Expression):
            name, fields = None, {"name": name, **fields}
        function, said = mapper_of(mapper, fields, self._value)
        values = value_type(value, said, self._value)
        node = nodes.MapValues(name=self._name(names.MAP_VALUES, name), mapper=function, value=values, **self._at())
        return self._next(node, value=values)

    @overload
    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, V2]]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...

    @overload
    def flat_map(
        self,
        mapper: Callable[[K, V, RecordContext], Iterable[tuple[K2, V2]]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...

    def flat_map(
        self,
        mapper: OfKeyValue[K, V, Iterable[tuple[K2, V2]]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Turn each record into any number of pairs of key and value, with a function of (key, value).

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.flat_map(lambda key, value: [(key, 1), (value, 2)]), [("a", "x")])
        [('a', 1), ('x', 2)]
        """
        function = user_function(mapper, "flat_map", KEY_VALUE, hint="did you mean flat_map_values?", context=True)
        said = annotated(function).item
        keys, values = key_type(key, said.key, self._key), value_type(value, said.value, self._value)
        node = nodes.FlatMap(
            name=self._name(names.FLAT_MAP, name), mapper=function, key=keys, value=values, **self._at()
        )
        return self._next(node, key=keys, value=values)

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[R]], value: Any = None, name: str | None = None
    ) -> KStream[K, R]: ...

    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[R]], value: Any = None, name: str | None = None
    ) -> KStream[K, R]: ...

    @overload
    def flat_map_values(
        self,
        mapper: Callable[[K, V, RecordContext], Iterable[R]],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    def flat_map_values(
        self, mapper: Callable[..., Any], value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Turn each record into any number of values, with a function of (value) or (key, value).

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.flat_map_values(lambda value: value.split()), [("a", "x y")])
        [('a', 'x'), ('a', 'y')]
        """
        hint = "did you mean flat_map?"
        function = user_function(mapper, "flat_map_values", VALUE, KEY_VALUE, hint=hint, context=True)
        values = value_type(value, annotated(function).item, self._value)
        node = nodes.FlatMapValues(
            name=self._name(names.FLAT_MAP_VALUES, name), mapper=function, value=values, **self._at()
        )
        return self._next(node, value=values)

    @overload
    def select_key(self, mapper: Expression, key: Any = None, name: str | None = None) -> KStream[Any, V]: ...

    @overload
    def select_key(
        self,
        mapper: Callable[[K, V], K2],
        key: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V]: ...

    @overload
    def select_key(
        self,
        mapper: Callable[[K, V, RecordContext], K2],
        key: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V]: ...

    def select_key(
        self, mapper: OfKeyValue[K, V, K2] | Expression, key: Any = None, name: str | None = None
    ) -> KStream[Any, V]:
        """Give each record a new key, from a function of (key, value), or an expression such as ``col("region")``.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.select_key(lambda key, value: value["id"]), [("a", {"id": "x"})])
        [('x', {'id': 'x'})]
        """
        node = self._select_key(mapper, "select_key", key, name)
        return self._next(node, key=node.key)

    def _select_key(self, mapper: Any, method: str, key: Any, name: str | None) -> nodes.SelectKey:
        if isinstance(mapper, Expression):
            function = evaluation(mapper, method, self._value)
        else:
            function = user_function(mapper, method, KEY_VALUE, context=True)
        keys = key_type(key, said_of(function), self._key)
        node = nodes.SelectKey(name=self._name(names.SELECT_KEY, name), mapper=function, key=keys, **self._at())
        return self._graph.add(node)

    @overload
    def peek(
        self,
        action: Callable[[K, V], Any],
        name: str | None = None,
    ) -> KStream[K, V]: ...

    @overload
    def peek(
        self,
        action: Callable[[K, V, RecordContext], Any],
        name: str | None = None,
    ) -> KStream[K, V]: ...

    def peek(self, action: OfKeyValue[K, V, Any], name: str | None = None) -> KStream[K, V]:
        """Call a function of (key, value) with each record, and pass the record on.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.peek(lambda key, value: print(key, value)), [("a", 1)])
        a 1
        [('a', 1)]
        """
        function = user_function(action, "peek", KEY_VALUE, context=True)
        return self._next(nodes.Peek(name=self._name(names.PEEK, name), action=function, **self._at()))

    @overload
    def foreach(
        self,
        action: Callable[[K, V], Any],
        name: str | None = None,
    ) -> None: ...

    @overload
    def foreach(
        self,
        action: Callable[[K, V, RecordContext], Any],
        name: str | None = None,
    ) -> None: ...

    def foreach(self, action: OfKeyValue[K, V, Any], name: str | None = None) -> None:
        """Call a function of (key, value) with each record; the stream ends here.

        If a commit is repeated after a crash, the function is called again: effects outside of Penstock happen at least
        once.
        """
        function = user_function(action, "foreach", KEY_VALUE, context=True)
        self._graph.add(nodes.Peek(name=self._name(names.FOREACH, name), action=function, **self._at()))

    def print(self, printed: Printed | None = None) -> None:
        """Print each record as ``[label]: key, value``. If a commit is repeated after a crash, its records are printed
        again.

        Args:
            printed: where and how to print; by default to standard output, with the name of the previous step.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("in").print(Printed.to_sys_out().with_label("in"))
        >>> TopologyTestDriver(builder.build()).pipe_input("in", "a", {"n": 1})
        [in]: a, {'n': 1}
        """
        given = Printed() if printed is None else printed
        check_type(given, Printed, "what print takes", "such as Printed.to_sys_out()")
        function = user_function(given.printer(self._node.name), "print", KEY_VALUE)
        if given.mapper is not None:
            mapper = user_function(given.mapper, "print: with_key_value_mapper", KEY_VALUE, context=True)
            function = replace(function, wants_context=mapper.wants_context)
        self._graph.add(nodes.Peek(name=self._name(names.PRINT, given.name), action=function, **self._at()))
