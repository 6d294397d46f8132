"""``peek`` and ``foreach`` on streams."""

from penstock import columnar
from support.flows import Run, source

ROWS = [("a", 1, 10), (None, 2, 5), ("b", None, 7)]


def test_peek_calls_the_function_with_each_record_and_hands_the_records_on(run: Run):
    seen = []
    builder, stream = source(value=int)
    stream.peek(lambda key, value: seen.append((key, value))).to("out")
    assert run(builder, ROWS).output() == ROWS
    assert seen == [("a", 1), (None, 2), ("b", None)]


def test_foreach_calls_the_function_with_each_record(run: Run):
    seen = []
    builder, stream = source(value=int)
    stream.foreach(lambda key, value: seen.append((key, value)))
    stream.to("out")
    assert run(builder, ROWS).output() == ROWS
    assert seen == [("a", 1), (None, 2), ("b", None)]


def test_what_the_function_of_peek_returns_does_not_matter(run: Run):
    builder, stream = source(value=int)
    stream.peek(lambda key, value: False).to("out")
    assert run(builder, ROWS).output() == ROWS


def test_a_columnar_peek_sees_whole_columns(run: Run):
    seen = []

    @columnar
    def look(key, value):
        seen.extend(zip(key.to_pylist(), value.to_pylist(), strict=True))

    builder, stream = source(value=int)
    stream.peek(look).to("out")
    assert run(builder, ROWS).output() == ROWS
    assert seen == [("a", 1), (None, 2), ("b", None)]
