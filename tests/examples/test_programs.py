"""The eight programs that users bring: what goes in, and all that comes out, in the test driver and on each engine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock import consume, produce
from penstock.testing import TopologyTestDriver
from support.spark_classes import QUICK_JVM

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "programs"))

MINUTE, HOUR = 60_000, 3_600_000
Rows = list[tuple[Any, Any, int]]


@dataclass(frozen=True)
class Case:
    """A program with its input, by topics: the name of the values' type, and rows in minutes; and its output."""

    program: str
    inputs: dict[str, tuple[str, Rows]]
    outputs: dict[str, Rows]
    later: dict[str, Rows] = field(default_factory=dict)
    """What comes when nothing does for 30 hours of the clock on the wall."""
    dropped: int = 0


CASES = [
    Case(
        "visits",
        {
            "clicks": (
                "Click",
                [
                    ("ann", ("/a", 0), 0),
                    ("bob", ("/x", 5 * MINUTE), 5),
                    ("ann", ("/b", 10 * MINUTE), 10),
                    ("ann", ("/c", 8 * MINUTE), 8),
                    ("bob", ("/y", 50 * MINUTE), 50),
                    ("cy", ("/z", 100 * MINUTE), 100),
                    ("bob", ("/late", 20 * MINUTE), 20),
                    ("dan", ("/end", 200 * MINUTE), 200),
                ],
            )
        },
        {
            "visits": [
                ("bob", {"pages": 1, "seconds": 0.0, "first_page": "/x", "last_page": "/x"}, 5),
                ("ann", {"pages": 3, "seconds": 600.0, "first_page": "/a", "last_page": "/b"}, 10),
                ("bob", {"pages": 1, "seconds": 0.0, "first_page": "/y", "last_page": "/y"}, 50),
                ("cy", {"pages": 1, "seconds": 0.0, "first_page": "/z", "last_page": "/z"}, 100),
            ],
            "late-clicks": [("bob", {"page": "/late", "at": 20 * MINUTE}, 20)],
        },
    ),
    Case(
        "payments",
        {
            "orders": ("Order", [("o1", ("ann", 9.5), 0), ("o2", ("bob", 5.0), 2), ("o3", ("cy", 7.0), 40)]),
            "payments": ("Payment", [("o1", ("card",), 14), ("o2", ("cash",), 18)]),
        },
        {
            "paid": [("o1", {"customer": "ann", "total": 9.5, "means": "card"}, 14)],
            "unpaid": [("o2", {"customer": "bob", "total": 5.0, "means": None}, 2)],
        },
    ),
    Case(
        "customers",
        {
            "customers": (
                "Change",
                [
                    ("c1", ("c", {"name": "Ann", "city": "Ulm"}), 0),
                    ("c1", ("u", {"name": "Anne", "city": "Ulm"}), 3),
                    ("c1", ("d", None), 5),
                ],
            ),
            "orders": ("Order", [("o1", ("c1", 9.5), 1), ("o2", ("c2", 5.0), 2), ("o3", ("c1", 7.0), 4)]),
        },
        {
            "named-orders": [
                ("o1", {"total": 9.5, "name": "Ann"}, 1),
                ("o2", {"total": 5.0, "name": None}, 2),
                ("o1", {"total": 9.5, "name": "Anne"}, 3),
                ("o3", {"total": 7.0, "name": "Anne"}, 4),
                ("o1", {"total": 9.5, "name": None}, 5),
                ("o3", {"total": 7.0, "name": None}, 5),
            ]
        },
    ),
    Case(
        "sensors",
        {
            "readings": (
                "Reading",
                [
                    ("s", (1, 20.0), 1),
                    ("s", (2, 45.0), 6),
                    ("s", (2, 45.0), 6),
                    ("s", (3, 40.0), 11),
                    ("s", (4, 20.0), 17),
                    ("s", (5, 10.0), 22),
                    ("s", (6, 10.0), 27),
                    ("s", (7, 50.0), 33),
                    ("s", (8, 50.0), 38),
                    ("s", (9, 10.0), 60),
                ],
            )
        },
        {
            "averages": [
                ("s", 32.5, 6),
                ("s", 42.5, 11),
                ("s", 30.0, 17),
                ("s", 15.0, 22),
                ("s", 10.0, 27),
                ("s", 30.0, 33),
                ("s", 50.0, 38),
                ("s", 50.0, 38),
            ],
            "alerts": [("s", 6 * MINUTE, 6), ("s", 38 * MINUTE, 38)],
        },
    ),
    Case(
        "top_ten",
        {
            "sales": (
                "Sale",
                [
                    *((None, (f"p{number:02d}", number), number) for number in range(12)),
                    (None, ("p00", 20), 65),
                    (None, ("p01", 5), 50),  # late, and in time for its hour
                    (None, ("x", 1), 71),
                    (None, ("p02", 9), 55),  # too late
                ],
            )
        },
        {
            "top-ten": [
                (
                    0,
                    [
                        {"product": product, "pieces": pieces}
                        for product, pieces in [
                            ("p11", 11),
                            ("p10", 10),
                            ("p09", 9),
                            ("p08", 8),
                            ("p07", 7),
                            ("p01", 6),
                            ("p06", 6),
                            ("p05", 5),
                            ("p04", 4),
                            ("p03", 3),
                        ]
                    ],
                    50,
                )
            ]
        },
        dropped=1,
    ),
    Case(
        "notifications",
        {
            "notifications": (
                "str",
                [
                    ("ann", "one", 0),
                    ("ann", "two", 3),
                    ("bob", "hi", 4),
                    ("ann", "three", 11),
                    ("cy", "x", 20),
                    ("cy", "y", 40),
                ],
            )
        },
        {"to-send": [("ann", "three", 11), ("bob", "hi", 4), ("cy", "y", 40)]},
    ),
    Case(
        "carts",
        {
            "steps": (
                "str",
                [
                    ("c1", "open", 0),
                    ("c2", "open", 10),
                    ("c1", "paid", 20),
                    ("c3", "paid", 30),
                    ("c1", "shipped", 60),
                    ("c4", "open", 65),
                    ("c4", "paid", 90),
                    ("c5", "open", 26 * 60),
                ],
            )
        },
        {"carts": [("c3", "paid after nothing", 30), ("c1", "done", 60), ("c2", "given up", 90)]},
        later={"carts": [("c4", "not shipped yet", 30 * 60)]},
    ),
]

every_program = pytest.mark.parametrize("case", CASES, ids=[case.program for case in CASES])


def rows_of(module: Any, kind: str, rows: Rows) -> Rows:
    """Rows with values of a type of the program's, and times in milliseconds."""
    if kind == "str":
        return [(key, value, minute * MINUTE) for key, value, minute in rows]
    type_ = getattr(module, kind)
    fields = type_.__dataclass_fields__
    return [
        (key, msgspec.convert(dict(zip(fields, value, strict=True)), type_), minute * MINUTE)
        for key, value, minute in rows
    ]


def plain(records: Any) -> Rows:
    """Records as keys, values without the program's types, and minutes."""
    return [(record.key, msgspec.to_builtins(record.value), record.timestamp / MINUTE) for record in records]


@every_program
def test_in_the_test_driver(case: Case) -> None:
    module = importlib.import_module(case.program)
    driver = TopologyTestDriver(module.topology)
    topics = [[(row, topic) for row in rows_of(module, *given)] for topic, given in case.inputs.items()]
    for row, topic in merge(*topics, key=lambda one: one[0][2]):
        driver.pipe_input(topic, *row)
    assert {topic: plain(driver.read_output(topic)) for topic in case.outputs} == case.outputs
    driver.advance_wall_clock_time("30 hours")
    assert {topic: plain(driver.read_output(topic)) for topic in case.later} == case.later
    assert driver.dropped_records_total() == case.dropped


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of the user's, for all programs one after the other."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("programs")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.extraJavaOptions", QUICK_JVM).config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.slow
@every_program
def test_on_an_engine(case: Case, engine: dict[str, Any], tmp_path: Path) -> None:
    module = importlib.import_module(case.program)
    log = tmp_path / "log"
    for topic, (kind, rows) in case.inputs.items():
        key = str if rows[0][0] is not None else None
        value = str if kind == "str" else getattr(module, kind)
        produce(rows_of(module, kind, rows), topic, key, value, log)
    every_update = {"trigger": "available-now", "statestore_cache_max_bytes": 0}
    state = tmp_path / "state"
    streams = module.topology.start(application_id=case.program, log=log, state_dir=state, **engine, **every_update)
    assert streams.await_termination()
    assert {topic: plain(consume(topic, log=log)) for topic in case.outputs} == case.outputs


@pytest.mark.slow
def test_files_become_topics_and_results_frames_of_whatever_people_use(spark: Any, tmp_path: Path) -> None:
    import frames

    log = tmp_path / "log"
    frames.make_files(tmp_path)
    frames.fill(spark, tmp_path, log)
    streams = frames.topology.start(
        application_id="turnover", log=log, state_dir=tmp_path / "state", spark=spark, trigger="available-now"
    )
    assert streams.await_termination()
    last = [("rye", 10.0), ("tea", 27.0)]
    assert {row.key: row.value for row in frames.as_spark(spark, log).orderBy("offset").collect()} == dict(last)
    assert frames.as_pandas(log).groupby("key")["value"].last().to_dict() == dict(last)
    assert frames.as_polars(log).select("key", "value").rows() == last
    assert frames.in_duckdb(log) == last
    assert frames.store_in_duckdb(tmp_path / "state") == last[::-1]
