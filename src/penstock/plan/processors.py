"""The forms of a processor argument: a class, a supplier, a function that makes one, a plain function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from penstock.errors import TopologyError
from penstock.messages import show
from penstock.plan.functions import UserFunction, accepts, caller, refuse_unusable
from penstock.plan.names import check_name
from penstock.plan.node import StoreSpec
from penstock.processor import Processor, ProcessorContext
from penstock.record import Record
from penstock.serdes import BYTES
from penstock.usage.calls import why_methods_unusable


@dataclass(frozen=True)
class ProcessorFunction:
    """How a step gets its processors."""

    make: Callable[[], Any]
    """Creates a new processor or transformer, one for each task."""
    function: UserFunction
    """The function or method that processes each record, for messages."""
    returns: Any = None
    """The return annotation of its method, or None."""


class _Plain(Processor[Any, Any]):
    """A plain function of (record, context)."""

    def __init__(self, function: Callable[[Record, ProcessorContext], object]):
        self._function = function

    def init(self, context: ProcessorContext) -> None:
        function = self._function
        self.process = lambda record: function(record, context)  # type: ignore[method-assign,assignment]

    def process(self, record: Record) -> None:
        raise AssertionError("init has put the function in this place")


def processor_function(given: Any, method: str) -> ProcessorFunction:
    """Turn the user's argument into a maker of processors.

    Raises:
        TopologyError: it has none of the forms; for example, it is a processor instance, which tasks cannot share.
    """
    if not isinstance(given, type) and not hasattr(given, "get") and callable(given) and accepts(given, 2):
        refuse_unusable(given, method, caller())
        return ProcessorFunction(lambda: _Plain(given), UserFunction(given, 2, False, caller(), method=method))
    return _Asked(method, "Processor", "process(record)", "process", ", or a function of (record, context)").made(given)


def transformer_function(given: Any, method: str) -> ProcessorFunction:
    """Turn the user's argument into a maker of transformers of a table's values.

    Raises:
        TopologyError: it has none of the forms.
    """
    return _Asked(method, "ValueTransformerWithKey", "transform(key, value)", "transform").made(given)


class _Asked(NamedTuple):
    """The requirements for an argument: an object of the user's that is created again for each task."""

    method: str
    kind: str
    call: str
    attribute: str
    other: str = ""

    @property
    def forms(self) -> str:
        return (
            f"a {self.kind} class, a supplier with get(), a function without arguments that returns a new {self.kind}"
            f"{self.other}"
        )

    def made(self, given: Any) -> ProcessorFunction:
        where = caller()
        if isinstance(given, type) and hasattr(given, self.attribute):
            self._check_class(given, where)
            function = getattr(given, self.attribute)
            of_class = UserFunction(function, 2, False, where, method=self.method)
            return ProcessorFunction(given, of_class, of_class.returns())
        if hasattr(given, self.attribute):
            name = type(given).__name__
            raise TopologyError(
                f"{self.method} at {where} takes {self.forms}; got one object of type {name}, but each task makes its "
                f"own. Give the class {name} itself, or a function that makes one, such as lambda: {name}(...)"
            )
        if not (callable(given) or hasattr(given, "get")):
            raise TopologyError(f"{self.method} at {where} takes {self.forms}; got {_shown(given)}")
        make = given.get if hasattr(given, "get") and not isinstance(given, type) else given
        refuse_unusable(make, self.method, where)
        if not accepts(make, 0):
            raise TopologyError(f"{self.method} at {where} takes {self.forms}; got {_shown(given)}")
        returns = UserFunction(getattr(self._checked(make, where), self.attribute), 2, False, where).returns()
        return ProcessorFunction(make, UserFunction(make, 2, False, where, method=self.method), returns)

    def _check_class(self, given: type, where: str) -> None:
        if inspect.isabstract(given):
            missing = ", ".join(sorted(getattr(given, "__abstractmethods__", ())))
            raise TopologyError(
                f"{self.method} at {where}: the class {given.__name__} does not define {missing}; "
                f"add `def {missing}(self, ...)`"
            )
        if not accepts(given, 0):
            raise TopologyError(
                f"{self.method} at {where}: the class {given.__name__} takes arguments {inspect.signature(given)}; "
                f"give a function that makes one, such as lambda: {given.__name__}(...)"
            )
        self._check_methods(given, given.__name__, where)

    def _check_methods(self, given: Any, name: str, where: str) -> None:
        why = why_methods_unusable(given, "init", self.attribute, "close")
        if why:
            raise TopologyError(f"{self.method} at {where}: of the {self.kind} {name} {why}")

    def _checked(self, make: Callable[[], Any], where: str) -> Any:
        """Return the supplier's result, after checking that it is a new one each time, as Kafka Streams requires
        (``ApiUtils.checkSupplier``)."""
        first, second = make(), make()
        if not callable(getattr(first, self.attribute, None)):
            if isinstance(make, type):
                raise TopologyError(
                    f"{self.method} at {where}: the class {make.__name__} has no method {self.call}; define it, as in "
                    f"class {make.__name__}({self.kind})"
                )
            raise TopologyError(
                f"{self.method} at {where}: the supplier must return a {self.kind}, with a method {self.call}; got "
                f"{_shown(first)}"
            )
        self._check_methods(first, type(first).__name__, where)
        if first is second:
            raise TopologyError(
                f"{self.method} at {where}: the supplier returns the same {self.kind} twice; it must make a new one "
                "for each task"
            )
        return first


def _shown(given: Any) -> str:
    if isinstance(given, FunctionType):
        return f"{given.__name__!r} of {inspect.signature(given)}"
    return f"{show(given)} of type {type(given).__name__}"


def own_stores(supplier: Any) -> Sequence[Any]:
    """The builders of the stores that a supplier declares."""
    stores = getattr(supplier, "stores", None)
    return (stores() or ()) if callable(stores) and not isinstance(supplier, type) else ()


class Direct:
    """Gives stores of any class: what a user's builder builds, or a supplier gives."""

    def __init__(self, given: Any):
        self.name: str = given.name() if callable(given.name) else given.name
        self.given = given

    def get(self) -> Any:
        """A new store."""
        make = getattr(self.given, "build", None)
        return make() if callable(make) else self.given.get()


def direct_spec(given: Any) -> StoreSpec | None:
    """The store of a user's own builder or supplier, which processors get as it is; None if it is neither."""
    if isinstance(given, type) or not hasattr(given, "name"):
        return None
    if not callable(getattr(given, "build", None)) and not callable(getattr(given, "get", None)):
        return None
    supplier = Direct(given)
    check_name(supplier.name)
    return StoreSpec(
        name=supplier.name, named_by_user=True, key=BYTES, value=BYTES, shape="direct", supplier=supplier, caching=False
    )


def checked_builder(builder: Any, known: dict[str, Any], what: str) -> StoreSpec:
    """Return the store of a builder, and add it to ``known``.

    Raises:
        TopologyError: it is not a builder of a store, or another builder has its name.
    """
    spec = getattr(builder, "spec", None)
    if not isinstance(spec, StoreSpec):
        spec = direct_spec(builder)
    if spec is None:
        raise TopologyError(
            f"{what} at {caller()} takes the builder of a store, such as Stores.key_value_store_builder("
            f"Stores.persistent_key_value_store('counts'), str, int); got {builder!r}, a {type(builder).__name__}. "
            "For a store of your own give an object with a name whose build() or get() returns the store"
        )
    if known.setdefault(spec.name, builder) != builder:
        raise TopologyError(
            f"{what} at {caller()}: a store {spec.name!r} was added already, by another builder; give each store a "
            "name of its own, or add the same builder again"
        )
    return spec
