"""Fields that a step reads by name and that no value has are told of: they count as None, without an error."""

from typing import Any

import pytest

from penstock import Sum, col
from penstock.testing import pipe

ROWS = [("a", {"id": number, "amount": 1}) for number in range(12)]


def told(caplog: pytest.LogCaptureFixture, steps: Any, rows: Any = ROWS) -> list[str]:
    pipe(steps, rows)
    return [one.replace(__file__, "FILE").partition(", and")[0].partition(" reads ")[2] for one in caplog.messages]


def test_an_id_that_no_value_has_is_told_with_the_fields_there_are(caplog: pytest.LogCaptureFixture):
    assert (
        len(pipe(lambda s: s.deduplicate("idd", "1 hour"), [("a", {"id": 1, "n": 2}), ("b", {"id": 1, "n": 3})])) == 2
    )
    [message] = caplog.messages
    assert message.startswith(f"deduplicate at {__file__}:")
    assert message.partition(" reads ")[2] == (
        "the field 'idd' (did you mean 'id'?), and no value has had it so far; the values have 'id', 'n'. A missing "
        "field counts as None: check the name"
    )


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        (lambda s: s.deduplicate("event", "1 hour"), "'event'"),
        (lambda s: s.deduplicate_by_key_value("payload.id", "1 hour"), "'payload.id'"),
        (lambda s: s.group_by_key().aggregate(total=Sum("amnt")).to_stream(), "'amnt' (did you mean 'amount'?)"),
        (lambda s: s.filter(col("region") == "north"), "'region'"),
        (lambda s: s.map_values(lambda value: value).filter(col("region") == "north"), "'region'"),
    ],
)
def test_so_is_a_field_of_every_step_that_reads_by_name(caplog: pytest.LogCaptureFixture, steps: Any, name: str):
    assert told(caplog, steps) == [f"the field {name}"]


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        (lambda s: s.deduplicate("id", "1 hour"), ROWS),
        (lambda s: s.deduplicate("id", "1 hour"), [("a", {"id": None, "n": 1})] * 12),
        (lambda s: s.deduplicate("event", "1 hour"), [*ROWS[:9], ("a", {"event": 1}), *ROWS]),
        (lambda s: s.deduplicate("event", "1 hour"), ROWS[:9]),  # too few to tell
        (lambda s: s.filter(col("region").is_none()), ROWS),
        (lambda s: s.map_values(col("discount").or_else(0)), ROWS),
    ],
)
def test_a_field_that_some_value_has_or_whose_absence_is_provided_for_is_not_told(
    caplog: pytest.LogCaptureFixture, steps: Any, rows: Any
):
    assert told(caplog, steps, rows) == []
