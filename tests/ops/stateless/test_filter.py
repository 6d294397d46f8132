"""``filter`` and ``filter_not`` on streams."""

import pyarrow.compute as pc

from penstock import columnar
from support.flows import Run, source

ROWS = [
    ("a", 1, 10),
    ("b", 5, 20),
    (None, 7, 15),
    ("a", None, 30),
    ("c", 3, 5),
]


def at_least_3(key, value):
    return value is not None and value >= 3


def test_filter_keeps_the_records_for_which_the_predicate_holds(run: Run):
    builder, stream = source(value=int)
    stream.filter(at_least_3).to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("b", 5, 20),
        (None, 7, 15),
        ("c", 3, 5),
    ]
    assert ran.dropped() == {}  # left out by the user is not dropped


def test_filter_not_keeps_the_other_ones(run: Run):
    builder, stream = source(value=int)
    stream.filter_not(at_least_3).to("out")
    assert run(builder, ROWS).output() == [
        ("a", 1, 10),
        ("a", None, 30),
    ]


def test_the_predicate_sees_null_keys_and_null_values(run: Run):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: key is None or value is None).to("out")
    assert run(builder, ROWS).output() == [
        (None, 7, 15),
        ("a", None, 30),
    ]


def test_any_true_value_counts_as_true(run: Run):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: value and key).to("out")
    assert run(builder, [("a", 0, 1), ("a", 2, 2), ("", 3, 3)]).output() == [("a", 2, 2)]


def test_a_columnar_predicate_sees_arrow_arrays_and_a_null_in_its_result_is_false(run: Run):
    @columnar
    def large(key, value):
        return pc.greater_equal(value, 3)  # null where the value is null

    builder, stream = source(value=int)
    stream.filter(large).to("out")
    stream.filter_not(large).to("rest")
    ran = run(builder, ROWS)
    assert ran.output() == [("b", 5, 20), (None, 7, 15), ("c", 3, 5)]
    assert ran.output("rest") == [("a", 1, 10), ("a", None, 30)]
