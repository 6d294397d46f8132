"""Handlers: what becomes of a record is decided by the kind of its error, by a choice or by a function (KS-09)."""

from __future__ import annotations

import pytest

from penstock import ErrorHandlerContext, HandlerResponse, StreamsBuilder
from penstock.errors import ConfigError, ProcessingError
from penstock.settings import Settings
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-09")

ROWS = [("a", b"not JSON", 1), ("b", {"n": 0}, 2), ("c", {"n": 1}, 3), ("d", {"n": 2}, 4)]
"""One that does not decode, one whose function raises, one whose result cannot be written, and a good one."""

KINDS = ("deserialization", "processing", "production")


def topology() -> StreamsBuilder:
    builder, stream = source(value=dict)
    stream.map_values(lambda value: "no number" if 2 // value["n"] == 2 else value["n"], value=int).to("out")
    return builder


def handlers(*choices) -> dict[str, object]:
    return {f"{kind}_exception_handler": choice for kind, choice in zip(KINDS, choices, strict=True)}


def test_each_kind_of_error_has_a_handler_of_its_own(run: Run):
    assert run(topology(), ROWS, **handlers("continue", "continue", "continue")).output() == [("d", 2, 4)]
    for wrong, kind in enumerate(KINDS):
        choices = ["fail" if number == wrong else "skip" for number in range(3)]
        with pytest.raises(ProcessingError, match=f"offset {wrong}"):
            run(topology(), ROWS, **handlers(*choices)).output()
        rest = [row for number, row in enumerate(ROWS) if number != wrong]
        assert run(topology(), rest, **handlers(*choices)).output() == [("d", 2, 4)], kind


def test_what_has_no_handler_is_as_on_error_says(run: Run):
    given = {"on_error": "skip", "processing_exception_handler": "fail"}
    with pytest.raises(ProcessingError, match="offset 1"):
        run(topology(), ROWS, **given).output()
    assert run(topology(), [ROWS[0], *ROWS[2:]], **given).output() == [("d", 2, 4)]


def test_a_function_gets_the_context_and_answers(run: Run):
    seen: list[ErrorHandlerContext] = []

    def handler(context: ErrorHandlerContext) -> HandlerResponse:
        seen.append(context)
        return HandlerResponse.DEAD_LETTER if context.kind == "processing" else HandlerResponse.CONTINUE

    ran = run(topology(), ROWS, **handlers(handler, handler, handler), dead_letter_topic="failed")
    assert ran.output() == [("d", 2, 4)]
    assert ran.output("failed") == [(b"b", b'{"n":0}', 2)]
    told = {(c.kind, c.topic, c.partition, c.offset, c.timestamp, c.source_raw_key, c.source_raw_value) for c in seen}
    assert told == {
        ("deserialization", "in", 0, 0, 1, b"a", b"not JSON"),
        ("processing", "in", 0, 1, 2, b"b", b'{"n":0}'),
        ("production", "in", 0, 2, 3, b"c", b'{"n":1}'),
    }
    by_kind = {context.kind: context for context in seen}
    assert type(by_kind["processing"].error) is ZeroDivisionError
    assert by_kind["processing"].processor_node_id == "KSTREAM-MAPVALUES-0000000001"
    assert by_kind["production"].processor_node_id == "KSTREAM-SINK-0000000002"
    assert by_kind["deserialization"].task_id == "0_0"


class Picky:
    def handle(self, context: ErrorHandlerContext) -> str:
        return "continue" if isinstance(context.error, ZeroDivisionError) else "fail"


PICKY = Picky()


@pytest.mark.parametrize("given", [Picky, Picky(), f"{__name__}:Picky", f"{__name__}:PICKY"])
def test_a_class_with_the_method_handle_or_its_name_does_as_well(run: Run, given: object):
    builder, stream = source(value=int)
    stream.map_values(lambda value: 6 // value, value=int).to("out")
    rows = [("a", 0, 1), ("b", 2, 2)]
    assert run(builder, rows, processing_exception_handler=given).output() == [("b", 3, 2)]
    with pytest.raises(ProcessingError, match="TypeError"):
        run(builder, [("a", None, 1)], processing_exception_handler=given).output()


def test_kafkas_names_of_ready_handlers_are_choices(run: Run):
    given = handlers(
        "LogAndContinueExceptionHandler",
        "LogAndContinueProcessingExceptionHandler",
        "DefaultProductionExceptionHandler",
    )
    with pytest.raises(ProcessingError, match="offset 2"):
        run(topology(), ROWS, **given).output()
    assert run(topology(), [*ROWS[:2], ROWS[3]], **given).output() == [("d", 2, 4)]


def test_what_a_function_left_out_or_sent_to_the_dead_letters_is_counted_once(run: Run):
    builder, stream = source(value=int)
    failing = stream.map_values(lambda value: 6 // value, value=int)
    failing.to("out")
    stream.filter(lambda key, value: 6 // value > 0).to("other")
    ran = run(
        builder,
        [("a", 0, 1), ("b", 2, 2)],
        processing_exception_handler=lambda _: "dead_letter",
        dead_letter_topic="dead",
    )
    assert ran.output("dead") == [(b"a", b"\x00" * 8, 1)]
    counted = {m.name: figure for m, figure in ran.driver.metrics().items() if m.reason == "ZeroDivisionError"}
    assert counted == {"dead-letter-records-total": 1}


def test_a_handler_that_fails_itself_or_answers_something_else_stops_the_program():
    def raises(context):
        raise RuntimeError("no idea")

    for handler, said in [
        (raises, r"and then the handler of processing errors did: RuntimeError: no idea"),
        (lambda context: "ignore", "must answer 'fail', 'continue' or 'dead_letter'; got 'ignore'"),
        (lambda context: None, "got None"),
        (lambda context: "dead_letter", "nothing says where these go; set dead_letter_topic"),
    ]:
        driver = TopologyTestDriver(topology().build(), processing_exception_handler=handler)
        with pytest.raises(ProcessingError, match=said):
            driver.pipe_input("in", "b", {"n": 0})


def test_choosing_a_topic_or_a_partition_is_production(run: Run):
    builder, stream = source(value=int)
    stream.to(lambda key, value: "t" if value else 5 // value)
    stream.to("out", partitioner=lambda key, value, partitions: 0 if value else 9)
    rows = [("a", 0, 1), ("b", 2, 2)]
    given = {"production_exception_handler": "continue", "processing_exception_handler": "fail"}
    ran = run(builder, rows, **given)
    assert ran.output() == ran.output("t") == [("b", 2, 2)]


def test_settings_that_are_no_handlers_are_refused():
    for given, said in [
        ({"processing_exception_handler": "ignore"}, "processing_exception_handler must be 'fail', 'continue'"),
        ({"production_exception_handler": 5}, "production_exception_handler must be"),
        ({"processing_exception_handler": "no.module:thing"}, "No module named"),
        ({"deserialization_exception_handler": "dead_letter"}, "set dead_letter_topic"),
        ({"on_error": "dead_letter:a", "dead_letter_topic": "b"}, "say it once"),
    ]:
        with pytest.raises(ConfigError, match=said):
            Settings(**given)
    assert Settings(on_error="dead_letter:a", dead_letter_topic="a").dead_letters == ["a"]
    assert Settings(dead_letter_topic="a").dead_letters == []


def test_a_record_of_a_global_table_is_a_dead_letter_of_one_task_only():
    builder = StreamsBuilder()
    everywhere = builder.global_table("all", value=dict)
    builder.stream("in").join(everywhere, lambda left, right: left, key_selector=lambda key, value: key).to("out")
    with CutDriver(builder.build(), on_error="dead_letter:dead") as driver:
        driver.pipe_input("all", "a", b"not JSON")
        assert len(driver.read_output("dead")) == 1
