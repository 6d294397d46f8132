"""``select_key`` on streams."""

import pyarrow.compute as pc

from penstock import columnar
from support.flows import Run, source


def test_select_key_gives_new_keys_to_the_same_records(run: Run):
    builder, stream = source(value=dict)
    stream.select_key(lambda key, value: value["id"], key=int).to("out")
    assert run(builder, [("a", {"id": 7}, 10), (None, {"id": 8}, 5)]).output() == [
        (7, {"id": 7}, 10),
        (8, {"id": 8}, 5),
    ]


def test_select_key_may_give_null_keys_and_sees_nulls(run: Run):
    builder, stream = source(value=str)
    stream.select_key(lambda key, value: "none" if value is None else None).to("out")
    assert run(builder, [("a", "x", 1), ("b", None, 2)]).output() == [(None, "x", 1), ("none", None, 2)]


def test_a_columnar_select_key(run: Run):
    @columnar
    def first_letter(key, value):
        return pc.utf8_slice_codeunits(value, 0, 1)

    builder, stream = source(value=str)
    stream.select_key(first_letter).to("out")
    assert run(builder, [("a", "xyz", 1), ("b", None, 2)]).output() == [("x", "xyz", 1), (None, None, 2)]
