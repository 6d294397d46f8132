"""What a type checker makes of users' programs: nothing of the right ones, and the typos of the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from penstock.settings import Settings, SettingsArguments

ROOT = Path(__file__).parents[1]

PROGRAM = """
from dataclasses import dataclass
from datetime import datetime

from penstock import (
    Branched, ConfigError, Consumed, Count, GlobalKTable, Grouped, Joined, KGroupedStream, KStream, KTable,
    Materialized, Produced, Progress, Repartitioned, StreamsBuilder, Streams, Sum, Suppressed, TableJoined, TimeWindows,
    Topology, Windowed,
)


@dataclass
class Order:
    customer: str
    amount: int
    at: datetime


@dataclass
class Stats:
    orders: int
    total: int | None


def big(order: Order) -> bool:
    return order.amount > 100


def report(progress: Progress) -> None:
    print(progress.records, progress.lost)


builder = StreamsBuilder()
orders: KStream[str, Order] = builder.stream("orders", value=Order, timestamp=lambda order: order.at)
names: KTable[str, str] = builder.table("names", value=str)
cities: GlobalKTable[int, str] = builder.global_table("cities", key=int, value=str)
large = orders.filter(lambda key, order: big(order))
amounts: KStream[str, int] = large.map_values(lambda order: order.amount)
by_customer: KGroupedStream[str, Order] = orders.group_by(lambda key, order: order.customer)
counts: KTable[str, int] = by_customer.count("counts")
sums: KTable[str, int] = by_customer.aggregate(int, lambda key, order, total: total + order.amount)
stats: KTable[str, Stats] = by_customer.aggregate(value=Stats, orders=Count(), total=Sum("amount"))
stats.to_stream().map_values(lambda one: one.orders + (one.total or 0)).to("stats")
by_customer.aggregate(orders=Count()).to_stream().map_values(lambda one: one.orders).to("orders-of-each")
hourly: KTable[Windowed[str], int] = by_customer.windowed_by(TimeWindows.of_size_with_no_grace("1 hour")).count(
    materialized=Materialized.as_("hourly").with_retention("1 day")
)
hourly.suppress(Suppressed.until_window_closes()).to_stream(lambda window, count: window.key).to("hourly")
named: KStream[str, str] = orders.left_join(names, lambda order, name: f"{name or 'nobody'}: {order.amount}")
there: KStream[str, str] = orders.join(cities, lambda order, city: city, key_selector=lambda key, order: order.amount)
branches: dict[str, KStream[str, Order]] = orders.split().branch(lambda key, order: big(order)).default_branch()
again: KStream[str, Order] = builder.stream("orders", Consumed.with_(str, Order))
later: KStream[str, Order] = builder.stream("orders", consumed=Consumed.with_(str, Order).with_name("later"))
rows: KTable[int, Order] = builder.table("rows", Consumed.with_(int, Order), store="rows")
spread: KStream[str, Order] = again.repartition(Repartitioned.as_("wide").with_number_of_partitions(4))
grouped: KGroupedStream[str, Order] = spread.group_by(lambda key, order: order.customer, Grouped.as_("who"))
same: KGroupedStream[str, Order] = spread.group_by_key(Grouped.as_("same"))
halves = spread.split().branch(lambda key, order: big(order), Branched.as_("big")).default_branch()
halves["big"].left_join(names, lambda order, name: f"{name}: {order.amount}", Joined.with_name("named")).to("big")
spread.to_table().join(names, lambda order, name: name, TableJoined.as_("one"), foreign_key=lambda order: order.at)
spread.to("spread", Produced.with_(str, Order))
named.merge(there).flat_map_values(lambda text: text.split()).to("names")


def main(topology: Topology) -> None:
    try:
        with topology.start("app", trigger="100 ms", on_progress=report, on_error="skip", chunk_bytes=9) as streams:
            streams.process_all_available()
            print(streams.offsets(), streams.last_progress)
    except ConfigError as error:
        print(error)


def stop(streams: Streams) -> None:
    streams.stop()


main(builder.build())
"""

TYPOS = [
    ("large.map_values(", "large.map_valus(", '"KStream[str, Order]" has no attribute "map_valus"'),
    ("lambda order: order.amount)", "lambda order: order.amuont)", '"Order" has no attribute "amuont"'),
    ("order.customer)", "order.custmer)", '"Order" has no attribute "custmer"'),
    (
        "KTable[str, int] = by_customer.count",
        "KTable[int, int] = by_customer.count",
        "Incompatible types in assignment",
    ),
    ("KTable[Windowed[str], int]", "KTable[str, int]", "Incompatible types in assignment"),
    ('f"{name or', 'f"{name.upper() or', 'has no attribute "upper"'),
    ('"app", trigger=', '"app", triger=', 'Unexpected keyword argument "triger"'),
    ('on_error="skip"', "on_error=1", 'Argument "on_error" to "start" of "Topology" has incompatible type "int"'),
    ("streams.offsets()", "streams.ofsets()", '"Streams" has no attribute "ofsets"'),
    ("again.repartition(", "again.repartiton(", '"KStream[str, Order]" has no attribute "repartiton"'),
    ("progress.lost", "progress.losts", '"Progress" has no attribute "losts"'),
    ("with_retention(", "with_retenton(", '"Materialized" has no attribute "with_retenton"'),
]


def found(folder: Path, *programs: str) -> dict[int, list[str]]:
    """What mypy says of programs, by their numbers."""
    files = [folder / f"program_{number}.py" for number in range(len(programs))]
    for file, program in zip(files, programs, strict=True):
        file.write_text(program)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    said: dict[int, list[str]] = {}
    for line in ran.stdout.splitlines():
        if match := re.search(r"program_(\d+)\.py:\d+: error: (.*)", line):
            said.setdefault(int(match[1]), []).append(match[2])
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return said


@pytest.mark.slow
def test_the_right_program_has_no_faults_and_every_typo_is_one(tmp_path: Path):
    wrong = []
    for right, typo, _ in TYPOS:
        assert PROGRAM.count(right) == 1, right
        wrong.append(PROGRAM.replace(right, typo))
    said = found(tmp_path, PROGRAM, *wrong)
    assert said.get(0, []) == []
    for number, (_, typo, message) in enumerate(TYPOS, 1):
        assert message in " ".join(said.get(number, [])), (typo, said.get(number))


def test_every_setting_is_a_keyword_with_a_type():
    own = {"origins", "log"}  # log is an argument of start
    settings = {name for name in get_type_hints(Settings) if name not in own}
    assert set(get_type_hints(SettingsArguments)) == settings
