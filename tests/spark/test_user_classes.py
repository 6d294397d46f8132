"""Types and functions that are defined in the user's script, on their way to a slot: pickled in one process, run in
another one. Spark itself is not needed for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Annotated, NamedTuple, NotRequired, Optional, TypedDict

import msgspec

from penstock import StreamsBuilder
from penstock.engine.shipping.shipping import dumps
from penstock.serdes import of
from penstock.testing import TopologyTestDriver

RATE = 2.0


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    S = 1


@dataclass
class Order:
    item: str
    amount: float
    color: Color = Color.RED


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    within: "Optional[Part]" = None


class Point(TypedDict):
    x: int
    y: NotRequired[float]


class Pair(NamedTuple):
    left: str
    right: Size = Size.S


class Base(msgspec.Struct, tag=True):
    name: str


class Leaf(Base, kw_only=True):
    weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    tags: list[str] = []

    def __post_init__(self):
        self.tags = sorted(self.tags)


class Branch(Base):
    below: "list[Leaf | Branch]" = msgspec.field(default_factory=list, name="children")

    @property
    def weight(self):
        return sum(one.weight for one in self.below)

    def heavier(self):
        return Branch(self.name, [*self.below, Leaf(name="lead", weight=10.0)])


CASES = {
    "order": (Order, Order("pen", 1.5, Color.BLUE), lambda order: replace(order, amount=order.amount * RATE)),
    "part": (Part, Part("a", Part("b")), lambda part: Part("c", part)),
    "point": (Point, {"x": 1}, lambda point: Point(x=point["x"] + 1, y=0.5)),
    "pair": (Pair, Pair("l"), lambda pair: pair._replace(left="m")),
    "branch": (Branch, Branch("a", [Leaf(name="l", tags=["b", "a"])]), lambda branch: branch.heavier()),
    "color": (Color, Color.RED, lambda color: Color.BLUE if color is Color.RED else color),
}

builder = StreamsBuilder()
for name, (type_, value, function) in CASES.items():
    stream = builder.stream(name, value=type_)
    stream.map_values(function, value=type_).to(name + "-out")
    stream.group_by_key().reduce(lambda one, other: other, store=name + "-last").to_stream().to(name + "-last")
topology = builder.build()
if "used" in sys.argv:
    driver = TopologyTestDriver(topology)
    for name, (type_, value, function) in CASES.items():
        driver.pipe_input(name, "k", value)
values = {name: of(type_).encode(value) for name, (type_, value, function) in CASES.items()}
sys.stdout.buffer.write(dumps((topology, values)))
"""

SLOT = """
import sys
from penstock.engine.shipping.shipping import loads
from penstock.testing import TopologyTestDriver

topology, values = loads(sys.stdin.buffer.read())
driver = TopologyTestDriver(topology)
for name, data in values.items():
    driver.pipe_input(name, "k", data)
    driver.pipe_input(name, "k", b'{"nothing": [1]}') if "poison" in sys.argv else None
    print([record.value for topic in (name + "-out", name + "-last") for record in driver.read_output(topic)])
"""

EXPECTED = """\
[Order(item='pen', amount=3.0, color=<Color.BLUE: 'blue'>), Order(item='pen', amount=1.5, color=<Color.BLUE: 'blue'>)]
[Part(name='c', within=Part(name='a', within=Part(name='b', within=None))), Part(name='a', within=Part(name='b', within=None))]
[{'x': 2, 'y': 0.5}, {'x': 1}]
[Pair(left='m', right=<Size.S: 1>), Pair(left='l', right=<Size.S: 1>)]
[Branch(name='a', below=[Leaf(name='l', weight=1.0, tags=['a', 'b']), Leaf(name='lead', weight=10.0, tags=[])]), \
Branch(name='a', below=[Leaf(name='l', weight=1.0, tags=['a', 'b'])])]
[<Color.BLUE: 'blue'>, <Color.RED: 'red'>]
"""  # noqa: E501


def python(*arguments: str, stdin: bytes = b"", folder: Path) -> bytes:
    run = subprocess.run([sys.executable, *arguments], input=stdin, capture_output=True, cwd=folder)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@pytest.mark.parametrize("use", [pytest.param("unused", marks=pytest.mark.slow), "used"])
@pytest.mark.parametrize("names", ["types", "names of types"])
def test_types_of_a_script_work_in_a_slot_used_before_or_not(tmp_path: Path, names: str, use: str):
    future = "from __future__ import annotations\n" if names == "names of types" else ""
    (tmp_path / "app.py").write_text(future + SCRIPT)
    shipped = python("app.py", use, folder=tmp_path)
    (tmp_path / "app.py").unlink()
    assert python("-c", SLOT, stdin=shipped, folder=tmp_path).decode() == EXPECTED


BY_NAME = """
import enum, functools, itertools, sys, typing, weakref
from dataclasses import dataclass

from penstock.engine.shipping.shipping import dumps

CALLS = []


@functools.lru_cache
def upper(text):
    CALLS.append(text)
    return text.upper()


@functools.cache
def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


@functools.lru_cache(maxsize=7, typed=True)
def doubled(number):
    return number * 2


@functools.singledispatch
def kind(thing):
    return "other"


@kind.register
def _(thing: int):
    return "int"


UserId = typing.NewType("UserId", int)
P = typing.ParamSpec("P")
tripled = functools.lru_cache(lambda number: number * 3)


def logged(function):
    @functools.wraps(function)
    def called(*arguments):
        return function(*arguments)

    return called


@logged
@functools.lru_cache
def wrapped(number):
    return number + 1


class Rates:
    def __init__(self):
        self.rate = 3

    @functools.lru_cache
    def times(self, number):
        return number * self.rate

    @functools.cached_property
    def percent(self):
        return self.rate * 100

    @functools.singledispatchmethod
    def kind(self, thing):
        return "other"

    @kind.register
    def _(self, thing: int):
        return "int"

    @staticmethod
    @functools.lru_cache
    def plain(number):
        return -number

    fourfold = functools.partialmethod(times, 4)
    Id = typing.NewType("Id", str)

    class Inner(enum.Enum):
        A = 1


@dataclass
class Order:
    amount: int

    @functools.cached_property
    def double(self):
        return self.amount * 2


class Planet(enum.Enum):
    EARTH = (1, "blue")
    MARS = (2, "red")
    ERDE = (1, "blue")

    def __init__(self, number, color):
        self.number = number
        self.color = color


class Label(str, enum.Enum):
    def __new__(cls, value, shown):
        made = str.__new__(cls, value)
        made._value_, made.shown = value, shown
        return made

    A = ("a", "An A")


rates = Rates()
cache = weakref.WeakKeyDictionary()
first = functools.partial(upper)
bound = functools.lru_cache(rates.times)
CASES = {
    "lru_cache": (lambda: (upper("a"), upper("a"), len(CALLS)), ("A", "A", 1)),
    "cache of a function that calls itself": (lambda: (fibonacci(30), fibonacci.cache_info().currsize), (832040, 31)),
    "its parameters": (lambda: (doubled(2), doubled.cache_parameters(), doubled.__name__),
                       (4, {"maxsize": 7, "typed": True}, "doubled")),
    "cached lambda": (lambda: tripled(2), 6),
    "decorated and cached": (lambda: wrapped(1), 2),
    "partial of a cached one": (lambda: first("b"), "B"),
    "cached bound method": (lambda: bound(2), 6),
    "cached method": (lambda: (rates.times(2), rates.fourfold(), Rates.plain(1)), (6, 12, -1)),
    "cached property": (lambda: (rates.percent, Order(2).double), (300, 4)),
    "singledispatch": (lambda: (kind(1), kind("a"), rates.kind(1), rates.kind("a")), ("int", "other") * 2),
    "NewType": (lambda: (UserId(4), UserId.__supertype__, Rates.Id("a")), (4, int, "a")),
    "ParamSpec": (lambda: P.__name__, "P"),
    "enum with attributes": (lambda: (Planet.MARS.color, Planet((1, "blue")).number, Planet.ERDE is Planet.EARTH),
                             ("red", 1, True)),
    "enum with __new__": (lambda: (Label("a").shown, Label.A == "a", Rates.Inner(1).name), ("An A", True, "A")),
    "weak dictionary": (lambda: len(cache), 0),
}
for name, (function, expected) in CASES.items():
    assert function() == expected, name
CALLS.clear()
sys.stdout.buffer.write(dumps(CASES))
"""

CALL = """
import sys
from penstock.engine.shipping.shipping import loads

for name, (function, expected) in loads(sys.stdin.buffer.read()).items():
    print(name, "is as it was" if function() == expected else f"gives {function()}")
"""


def test_what_pickle_sends_by_its_name_only_works_in_a_slot(tmp_path: Path):
    (tmp_path / "app.py").write_text(BY_NAME)
    shipped = python("app.py", folder=tmp_path)
    lines = python("-c", CALL, stdin=shipped, folder=tmp_path).decode().splitlines()
    assert [line for line in lines if not line.endswith("is as it was")] == []
    assert len(lines) == BY_NAME.count('": (lambda')


UNPACKED = """
import functools, weakref
from penstock import StreamsBuilder, produce
from penstock.errors import ConfigError


class NotFound(Exception):
    def __init__(self, what, where):
        super().__init__(what)


class Named:
    def __reduce__(self):
        return "named"


NOT_FOUND = NotFound("a", "b")
named = Named()
reference = weakref.ref(Named)


@functools.lru_cache
def cached(value):
    return reference() or value


produce([("a", 1)], "in", value=int)
for function in (lambda value: NOT_FOUND or value, lambda value: named or value, lambda value: cached(value)):
    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(function).to("out")
    try:
        builder.build().start("app")
    except ConfigError as error:
        print(error)
"""


def test_what_a_slot_could_not_unpack_is_refused_before_spark_starts_with_its_step(tmp_path: Path):
    (tmp_path / "app.py").write_text(UNPACKED)
    told = python("app.py", folder=tmp_path).decode().splitlines()
    where = f"step KSTREAM-MAPVALUES-0000000001 at {tmp_path}/app.py:"
    assert [where in line and f"<lambda> at {tmp_path}/app.py:" in line for line in told] == [True] * 3
    for line, said in zip(
        told,
        (
            "uses 'NOT_FOUND' of type __main__.NotFound, which cannot be pickled (UnpicklingError: in another process: "
            "TypeError: NotFound.__init__() missing 1 required positional argument: 'where')",
            "uses 'named' of type __main__.Named, which cannot be pickled (UnpicklingError: in another process: "
            "AttributeError: Can't get attribute 'named' on <module '__main__'",
            "uses 'cached', which uses 'reference' of type weakref.ReferenceType, which cannot be pickled (TypeError: "
            "cannot pickle 'weakref.ReferenceType' object)",
        ),
        strict=True,
    ):
        assert said in line
