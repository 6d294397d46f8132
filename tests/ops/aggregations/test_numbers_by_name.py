"""Aggregates of numbers by name read these straight from the bytes; records that do not fit fail as ever."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from penstock import Count, First, Last, Max, Mean, Min, SessionWindows, StreamsBuilder, Sum, TimeWindows
from penstock.columns import scanned
from penstock.plan.aggregates.reading import Reading
from penstock.serdes.json import JsonSerde
from support.flows import Run


class Order(msgspec.Struct):
    user: str
    amount: int | None
    share: float


NAMED = {
    "n": Count(),
    "paid": Count("amount"),
    "total": Sum("amount"),
    "mean": Mean("share"),
    "least": Min("amount"),
    "most": Max("share"),
    "first": First("amount"),
    "last": Last("share"),
}
WINDOWS: dict[str, Any] = {
    "no windows": None,
    "tumbling": TimeWindows.of_size_and_grace(10, 20),
    "hopping": TimeWindows.of_size_and_grace(10, 20).advance_by(4),
    "sessions": SessionWindows.of_inactivity_gap_and_grace(3, 20),
}
WRONG = [
    b'{"user":"x","amount":"5","share":1}',
    b'{"user":"x","amount":5}',
    b"[]",
    b'{"user":"\xff","amount":1,"share":1}',
]


@pytest.fixture(autouse=True)
def is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanned, "worth", 0)


def rows(wrong: list[bytes]) -> list[Any]:
    """Records of some keys as bytes, and wrong ones among them."""
    chance = random.Random(7)
    found = []
    for _ in range(300):
        amount = chance.choice(["null", "0", "-3", "12", "123456789"])
        share = chance.choice(["0.25", "-1.75", "3", "100.1", "0.1"])
        data = f'{{"user": "ü{chance.random()}", "amount": {amount}, "share": {share}}}'.encode()
        data = chance.choice(wrong) if wrong and chance.random() < 0.1 else data
        found.append(("raw", chance.choice(["a", "b", "c", None]), data, chance.randint(0, 60)))
    return found


def results(run: Run, given: list[Any], windows: Any, **named: Any) -> list[Any]:
    builder = StreamsBuilder()
    builder.stream("raw", key=str, value=bytes).to("in")
    groups: Any = builder.stream("in", key=str, value=Order).group_by_key()
    groups = groups if windows is None else groups.windowed_by(windows)
    groups.aggregate(**named).to_stream().to("out")
    ran = run(builder, given, on_error="skip")
    return [(str(key), value and msgspec.structs.astuple(value), time) for key, value, time in ran.output()]


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("wrong", [[], WRONG], ids=["right", "some wrong"])
def test_numbers_give_what_functions_give_also_among_records_that_do_not_fit(
    run: Run, windows: str, wrong: list[bytes]
):
    given = rows(wrong)
    by_fields = results(run, given, WINDOWS[windows], **NAMED)
    functions = {
        name: one if one.field is None else type(one)(lambda order, field=one.field: getattr(order, field))
        for name, one in NAMED.items()
    }
    assert by_fields == results(run, given, WINDOWS[windows], **functions)
    assert len(by_fields) >= 50


@pytest.mark.parametrize("windows", ["no windows", "tumbling", "hopping"])
def test_no_object_is_made_of_a_record(run: Run, windows: str, monkeypatch: pytest.MonkeyPatch):
    expected = results(run, rows([]), WINDOWS[windows], **NAMED)
    monkeypatch.setattr(Reading, "column", None)
    decode_all = JsonSerde.decode_all

    def decode_no_orders(serde: JsonSerde, data: Any) -> list[Any]:
        assert serde.type is not Order
        return decode_all(serde, data)

    monkeypatch.setattr(JsonSerde, "decode_all", decode_no_orders)
    assert results(run, rows([]), WINDOWS[windows], **NAMED) == expected
