"""ApproxDistinct and ApproxQuantile: how near they are, that no cut changes them, and what they refuse."""

from __future__ import annotations

import datetime
import math
import random
import sys
from typing import Any

import msgspec
import pytest

from penstock import (
    ApproxDistinct,
    ApproxQuantile,
    ConfigError,
    Count,
    PenstockError,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
)
from penstock.plan.aggregates.together import Together
from penstock.testing.cuts import CutDriver
from support.flows import Run, pipe_rows, source, windowed


class Visit(msgspec.Struct):
    user: str | None
    delay: float | None


NAMED: dict[str, Any] = {"users": ApproxDistinct("user"), "p99": ApproxQuantile("delay", 0.99), "n": Count()}


def plain(rows: list[Any]) -> list[Any]:
    return [(key, value and msgspec.structs.astuple(value), time) for key, value, time in rows]


def of(value_type: Any, values: list[Any], run: Run, aggregate: Any, **settings: Any) -> list[Any]:
    """What an aggregate of the values gives."""
    builder, stream = source(key=str, value=value_type)
    stream.group_by_key().aggregate(result=aggregate).to_stream().to("out")
    return [value.result for _, value, _ in run(builder, [("a", one, 1) for one in values], **settings).output()]


def test_few_values_are_counted_exactly_and_none_is_left_out(run: Run):
    builder, stream = source(key=str, value=Visit)
    stream.group_by_key().aggregate(**NAMED).to_stream().to("out")
    rows = [("a", Visit("ann", 2.0), 1), ("a", Visit(None, None), 2), ("a", Visit("bob", 5.0), 3)]
    rows += [("b", Visit(None, None), 4), ("a", Visit("ann", 1.0), 5)]
    assert plain(run(builder, rows).output()) == [
        ("a", (1, 2.0, 1), 1),
        ("a", (1, 2.0, 2), 2),
        ("a", (2, 5.0, 3), 3),
        ("b", (0, None, 1), 4),
        ("a", (2, 5.0, 4), 5),
    ]


def test_equal_values_count_once_of_whatever_type(run: Run):
    day = datetime.date(2026, 1, 2)
    assert of(str, ["", "a", "", "null"], run, ApproxDistinct()) == [1, 2, 2, 3]
    assert of(float, [1.0, 1.5, 0.0, -0.0], run, ApproxDistinct()) == [1, 2, 3, 3]
    assert of(int, [1, 2, 3, 1], run, ApproxDistinct(lambda value: 2**70 + value)) == [1, 2, 3, 3]
    assert of(dict, [{"x": 1}, {"x": 1.0}, {"x": 2}], run, ApproxDistinct("x")) == [1, 1, 2]
    assert of(dict, [{"x": 1, "y": 2}, {"y": 2, "x": 1}], run, ApproxDistinct()) == [1, 1]
    assert of(int, [1, 2, 3], run, ApproxDistinct(lambda value: (day, value % 2))) == [1, 2, 2]


def test_many_values_are_about_right_in_little_room():
    chance = random.Random(3)
    visits = [Visit(f"user {chance.randrange(3000)}", chance.lognormvariate(0, 1)) for _ in range(4000)]
    builder, stream = source(key=str, value=Visit)
    named = {"half": ApproxQuantile("delay", 0.5), **NAMED}
    stream.group_by_key().aggregate(store="store", **named).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0) as driver:
        pipe_rows(driver, [("a", visit, 1) for visit in visits])
        result = driver.read_output("out")[-1].value
        ((_, kept, *_),) = driver.store("store").all()
    assert result.users == pytest.approx(len({visit.user for visit in visits}), rel=0.03)
    delays = [visit.delay or 0 for visit in visits]
    for share, delay, near in [(0.5, result.half, 0.03), (0.99, result.p99, 0.003)]:
        assert sum(one <= delay for one in delays) / len(delays) == pytest.approx(share, abs=near)
    assert len(kept.users__sketch) < 2200
    assert len(kept.p99__sketch) < 4300


def test_sessions_that_merge_count_what_is_in_both_once(run: Run):
    builder, stream = source(key=str, value=Visit)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(4, 100))
    sessions.aggregate(**NAMED).to_stream().to("out")
    rows = [("a", Visit("ann", 3.0), 10), ("a", Visit("ann", 9.0), 17), ("a", Visit("bob", None), 14)]
    assert plain(run(builder, rows).output()) == [
        (windowed("a", 10, 10), (1, 3.0, 1), 10),
        (windowed("a", 17, 17), (1, 9.0, 1), 17),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 17, 17), None, 17),
        (windowed("a", 10, 17), (2, 9.0, 3), 17),
    ]


@pytest.mark.parametrize("windows", [None, TimeWindows.of_size_and_grace(10, 40).advance_by(4)])
def test_no_call_for_a_whole_record_and_the_same_as_record_by_record(
    run: Run, windows: Any, monkeypatch: pytest.MonkeyPatch
):
    chance = random.Random(5)
    rows = [
        (chance.choice("ab"), Visit(chance.choice([None, str(n % 70)]), chance.choice([None, n * 0.37])), n // 10)
        for n in range(200)
    ]

    def results() -> list[Any]:
        builder, stream = source(key=str, value=Visit)
        groups = stream.group_by_key() if windows is None else stream.group_by_key().windowed_by(windows)
        groups.aggregate(**NAMED).to_stream().to("out")
        return plain(run(builder, rows).output())

    by_columns = results()
    with monkeypatch.context() as patched:
        patched.setattr("penstock.ops.core.named_fold.is_computed", lambda folding: False)
        assert results() == by_columns
    monkeypatch.setattr(Together, "add", None)
    assert results() == by_columns


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_number_without_a_place_in_an_order_is_a_failure_of_its_record(run: Run, wrong: float):
    assert of(float, [1.0, wrong, 3.0], run, ApproxQuantile(share=1.0), on_error="skip") == [1.0, 3.0]


def said(call: Any) -> str:
    with pytest.raises(PenstockError) as caught:
        call(StreamsBuilder())
    return str(caught.value)


def test_what_they_cannot_do_is_refused():
    assert said(lambda _: ApproxQuantile("delay", 99)) == "ApproxQuantile: share takes a number from 0 to 1; got 99"
    assert said(lambda _: ApproxQuantile(0.99)) == (
        "ApproxQuantile takes a field before the share; for 0.99 of the values themselves write "
        "ApproxQuantile(share=0.99)"
    )
    visits = StreamsBuilder().stream("in", key=str, value=Visit).group_by_key()
    assert said(lambda _: visits.aggregate(x=ApproxQuantile("user", 0.5))).endswith(
        "ApproxQuantile('user', 0.5) takes numbers; got values of type str"
    )
    table = StreamsBuilder().table("in", key=str, value=Visit).group_by(lambda key, one: (key, one), key=str)
    for one in (ApproxDistinct("user"), ApproxQuantile("delay", 0.5)):
        assert said(lambda _, one=one: table.aggregate(x=one)).endswith(
            f"{one!r} cannot subtract a row, and rows of a table change; keep all values of a group, as "
            "Collect() does without a limit"
        )


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    visits = StreamsBuilder().stream("in", key=str, value=Visit).group_by_key()
    with pytest.raises(ConfigError, match=r"ApproxDistinct\('user'\) needs Apache DataSketches: pip install"):
        visits.aggregate(users=ApproxDistinct("user"))
