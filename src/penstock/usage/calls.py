"""Finds functions whose call does no work: async functions, which must be awaited, and generators, which must be
iterated over. Where Penstock does neither, their call would do nothing, and its result would count as true.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial, partialmethod
from threading import Event
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CoroutineType,
    EllipsisType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NotImplementedType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np
import pyarrow as pa

_RUNNERS = frozenset(("run", "run_until_complete", "run_coroutine_threadsafe", "run_sync", "async_to_sync", "send"))
"""Names by which a plain function runs the coroutine of the async function it wraps."""
_ASYNC = (
    "Streams await such functions in map_values_async and filter_async. Here give a plain function; it may run async "
    "code to its end, with asyncio.run(...)"
)
_DEPTH = 20
"""How many decorators and partials are followed."""
_LAZY = (map, filter, zip, enumerate, reversed)
_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, MethodWrapperType, partial)
_ENTERED = type(contextmanager(lambda: iter(()))())
_OF_STORES = (
    "init", "close", "commit", "flush", "manages_offsets", "get_committed_offset", "committed_offset",
    "new_transaction",
    "create_transaction", "put", "put_if_absent", "put_all", "delete", "get", "approximate_num_entries", "remove",
)  # fmt: skip
_READ_BY_STORES = (
    "range", "reverse_range", "all", "reverse_all", "prefix_scan", "fetch", "fetch_range", "find_sessions",
    "find_sessions_in_range",
)  # fmt: skip
"""Methods of stores whose results are iterated over."""


def why_unusable(call: Any, iterated: bool = False) -> str:
    """Return why a call does no work, and what to use instead; empty if it works.

    Args:
        call: a function, a method, a class, a partial, or an object with ``__call__``.
        iterated: whether the results are iterated over, so that a generator function is allowed.

    >>> async def fetch(value): ...
    >>> why_unusable(fetch)[:17], why_unusable(len)
    ('an async function', '')
    """
    kind = kind_of(call)
    if kind == "generator function":
        ways = "Return the result instead of yielding it; flat_map and flat_map_values take generators"
        return "" if iterated else f"a generator function: its call only makes a generator, which nobody runs. {ways}"
    return f"an {kind}: its call only makes an object to await, and nobody awaits it. {_ASYNC}" if kind else ""


def why_not_awaited(call: Any, plain: str) -> str:
    """Return why a step that awaits cannot await a call, and what to use instead; empty if it can.

    Args:
        plain: the method that takes plain functions.

    >>> why_not_awaited(len, "map_values")[:16]
    'a plain function'
    """
    kind = kind_of(call)
    if kind == "async function":
        return ""
    ways = f"Write async def, and await in it; if there is nothing to await, use {plain}"
    if kind:
        return f"{'an' if kind[0] == 'a' else 'a'} {kind}: it yields several results, and this step takes one. {ways}"
    return f"a plain function: this step awaits its calls. {ways}"


def kind_of(call: Any) -> str:
    """Return ``async function``, ``async generator function`` or ``generator function``; empty for all others."""
    for _ in range(_DEPTH):
        if isinstance(call, partial | partialmethod):
            call = call.func
        elif isinstance(call, MethodType | staticmethod | classmethod):
            call = call.__func__
        elif callable(getattr(call, "pyfunc", None)):  # of numpy.vectorize
            call = call.pyfunc
        elif isinstance(call, type):
            return _of_class(call)
        elif own := _of_function(call):
            return own
        elif isinstance(call, FunctionType) or hasattr(call, "__wrapped__"):
            wrapped = getattr(call, "__wrapped__", None)
            if wrapped is None or _runs(call):
                return ""
            kind = kind_of(wrapped)
            return kind if kind.startswith("async") else ""  # a wrapper may make a list from a generator
        else:
            own_call = getattr(type(call), "__call__", None)  # noqa: B004 - the method itself is what is looked into
            if not isinstance(own_call, FunctionType | staticmethod | classmethod | partialmethod):
                return ""
            call = own_call
    return ""


def _of_function(call: Any) -> str:
    if inspect.isasyncgenfunction(call):
        return "async generator function"
    if inspect.iscoroutinefunction(call):
        return "async function"
    if inspect.isgeneratorfunction(call):
        is_coroutine = call.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE  # of types.coroutine
        return "async function" if is_coroutine else "generator function"
    return ""


def _of_class(call: type) -> str:
    makers = (inspect.getattr_static(call, "__new__", None), inspect.getattr_static(type(call), "__call__", None))
    made = next((kind for maker in makers if maker is not None and (kind := kind_of(_plain(maker)))), "")
    return made or ("async function" if hasattr(call, "__await__") or hasattr(call, "__anext__") else "")


def _plain(method: Any) -> Any:
    return getattr(method, "__func__", method)


def _runs(wrapper: Any) -> bool:
    """Return whether a wrapper names something that runs an async function's result."""
    code = getattr(wrapper, "__code__", None)
    return code is not None and not _RUNNERS.isdisjoint((*code.co_names, *code.co_freevars))


def why_methods_unusable(given: Any, *methods: str, iterated: bool = False) -> str:
    """Return why a call of an object's or class's method does no work; empty if all methods work."""
    for name in methods:
        why = why_unusable(getattr(given, name, None), iterated)
        if why:
            return f"its method {name} is {why}"
    return ""


def why_store_unusable(store: Any) -> str:
    """Return why a call of a user store's method does no work; empty if all methods work."""
    return why_methods_unusable(store, *_OF_STORES) or why_methods_unusable(store, *_READ_BY_STORES, iterated=True)


def why_result_unusable(type_: type, iterated: bool = False) -> str:
    """Return why an object of this type, returned by a plain function, is no result, and what to return; empty if it
    is.

    >>> why_result_unusable(int)
    ''
    """
    if type_ is GeneratorType:
        return "" if iterated else "a generator, which nobody runs; return a list, or a value"
    if type_ in (CoroutineType, AsyncGeneratorType) or hasattr(type_, "__await__") or hasattr(type_, "__anext__"):
        return (
            f"an object to await, of type {type_.__name__}, and nobody awaits it; write await in front of it in an "
            "async function, for map_values_async or filter_async, or return asyncio.run(...) of it"
        )
    if not iterated and (type_ in _LAZY or type_.__module__ == "itertools"):
        return f"an iterator, of type {type_.__name__}, whose work nobody asks for; return a list of it, or a value"
    if type_ in _FUNCTIONS:
        return f"a function, of type {type_.__name__}, and nobody calls it; write parentheses behind it"
    if issubclass(type_, type):
        return "a class, which counts as true, and nobody makes an object of it; write parentheses behind it"
    if type_ is _ENTERED:
        return "a context manager, and nobody enters it; enter it in the function, with a with statement"
    if type_ is NotImplementedType:
        return "NotImplemented, which a comparison gives that does not know the other type; write it as an operator"
    return ""


def why_no_truth(type_: type) -> str:
    """Return why an object of this type is neither true nor false as a predicate's result, and what to return; empty if
    it is one of the two.

    Such objects count as true in Python whatever they stand for.

    >>> why_no_truth(bool), why_no_truth(type(...))
    ('', 'Ellipsis, the code that is left to write; return true or false')
    """
    for kind, why in _NO_TRUTH.items():
        if issubclass(type_, kind):
            return why
    if (type_.__module__.partition(".")[0], type_.__name__) in _NO_TRUTH_OF_LIBRARIES:
        return f"a missing value, of type {type_.__name__}; return true or false for it, as in `value is not None`"
    return ""


_NO_TRUTH: dict[Any, str] = {
    EllipsisType: "Ellipsis, the code that is left to write; return true or false",
    Future: "a Future, which counts as true, and nobody waits for it; return its result()",
    Event: "an Event, which counts as true; return its is_set()",
    ReferenceType: "a weak reference, which counts as true; call it, and return what it refers to",
    ModuleType: "a module, which counts as true; return true or false",
    BaseException: "an exception, which counts as true; raise it, or return true or false",
    pa.Array: "an Arrow array, which counts as true by its length; return one of its values",
    pa.ChunkedArray: "an Arrow array, which counts as true by its length; return one of its values",
}
"""Results of predicates that say nothing, and what to return in their place."""
_NO_TRUTH_OF_LIBRARIES = frozenset((("pandas", "NaTType"), ("pandas", "NAType")))


def truth(result: Any) -> bool:
    """Return whether a predicate's result is true. Scalars of Arrow count as the values that they hold.

    >>> truth(pa.scalar(False)), truth(pa.scalar(None)), truth("text")
    (False, False, True)

    Raises:
        TypeError: it is neither true nor false.
    """
    if isinstance(result, pa.Scalar):
        result = result.as_py()
    if why := why_no_truth(type(result)):
        raise TypeError(f"the function returned {why}")
    if isinstance(result, np.datetime64 | np.timedelta64) and np.isnat(result):
        raise TypeError("the function returned NaT, a missing time; return true or false for it")
    return bool(result)


def wrong_results(results: Iterable[Any], iterated: bool = False) -> frozenset[type]:
    """Return the types of results that are no results."""
    return frozenset(type_ for type_ in set(map(type, results)) if why_result_unusable(type_, iterated))


def refuse_result(result: Any, what: str = "the function", error: type[Exception] = TypeError) -> None:
    """Raise an error for an object that must be awaited, iterated over or forwarded where Penstock does neither."""
    if result is None:
        return
    why = why_result_unusable(type(result))
    if why:
        close(result)
        raise error(f"{what} returned {why}")
    if hasattr(result, "with_value") and hasattr(result, "with_timestamp"):
        raise error(f"{what} returned a Record, which goes nowhere; send it on with context.forward(record)")


def close(result: Any) -> None:
    """Close a coroutine or generator that will not run, so that Python does not warn about it."""
    end: Callable[[], Any] | None = getattr(result, "close", None)
    if end is not None and isinstance(result, CoroutineType | GeneratorType):
        end()
