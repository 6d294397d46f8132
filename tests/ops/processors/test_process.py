"""``process`` and ``process_values``: what a processor sees, and what becomes of what it forwards."""

from typing import Any

import pytest

from penstock import (
    FixedKeyProcessor,
    ProcessingError,
    Processor,
    ProcessorContext,
    ProcessorSupplier,
    Record,
    Stores,
    StreamsBuilder,
    TopologyError,
)
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-01")

ROWS = [("a", 1, 10), ("b", 5, 20), (None, 7, 15), ("a", None, 30)]


class Twice(Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record)
        self.context.forward(record.with_key("again"))


def test_a_processor_forwards_any_number_of_records_each_where_it_stands(run: Run):
    builder, stream = source(value=int)
    stream.process(Twice).to("out")
    assert run(builder, ROWS).output() == [
        ("a", 1, 10),
        ("again", 1, 10),
        ("b", 5, 20),
        ("again", 5, 20),
        (None, 7, 15),
        ("again", 7, 15),
        ("a", None, 30),
        ("again", None, 30),
    ]


def test_a_plain_function_of_record_and_context_is_a_processor(run: Run):
    def even(record, context):
        if record.timestamp % 20 == 0:
            context.forward(record.with_timestamp(record.timestamp + 1))

    builder, stream = source(value=int)
    stream.process(even).to("out")
    assert run(builder, ROWS).output() == [("b", 5, 21)]


def test_a_function_without_arguments_makes_a_processor_for_each_task(run: Run):
    builder, stream = source(value=int)
    stream.process(lambda: Twice()).to("out")
    assert len(run(builder, ROWS).output()) == 8


def test_a_supplier_makes_a_processor_for_each_task(run: Run):
    class Supplier(ProcessorSupplier):
        def get(self):
            return Twice()

    builder, stream = source(value=int)
    stream.process(Supplier()).to("out")
    assert len(run(builder, ROWS).output()) == 8


def test_what_is_forwarded_meets_what_goes_another_way_in_processing_order(run: Run):
    builder, stream = source(value=int)
    stream.process(Twice).merge(stream.filter(lambda key, value: key is None)).to("out")
    assert run(builder, ROWS[1:3]).output() == [
        ("b", 5, 20),
        ("again", 5, 20),
        (None, 7, 15),
        ("again", 7, 15),
        (None, 7, 15),
    ]


def test_a_record_goes_to_one_step_alone_by_its_name(run: Run):
    def sorted_out(record, context):
        context.forward(record, child="large" if record.value and record.value > 4 else "small")
        context.forward(record.with_value(0))

    builder, stream = source(value=int)
    processed = stream.process(sorted_out)
    processed.filter(lambda key, value: True, name="large").to("out")
    processed.filter(lambda key, value: True, name="small").to("others")
    ran = run(builder, ROWS[:2])
    assert ran.output() == [("a", 0, 10), ("b", 5, 20), ("b", 0, 20)]
    assert ran.output("others") == [("a", 1, 10), ("a", 0, 10), ("b", 0, 20)]


def test_a_sink_is_a_step_with_a_name_too(run: Run):
    builder, stream = source(value=int)
    processed = stream.process(lambda record, context: context.forward(record, child=f"to-{record.key}"))
    processed.to("out", name="to-a")
    processed.to("others", name="to-b")
    ran = run(builder, ROWS[:2])
    assert (ran.output(), ran.output("others")) == ([("a", 1, 10)], [("b", 5, 20)])


def test_forwarding_to_a_step_that_is_not_there_says_which_are(run: Run):
    builder, stream = source(value=int)
    stream.process(lambda record, context: context.forward(record, child="larg")).filter(
        lambda key, value: True, name="large"
    ).to("out")
    with pytest.raises(ProcessingError, match=r"forwards to 'larg', but no such step follows it.*'large'"):
        run(builder, ROWS).output()


def test_the_context_says_where_a_record_is_from_and_what_time_it_is():
    seen = []

    def look(record, context):
        seen.append((context.record_metadata, context.current_stream_time_ms, context.current_system_time_ms))
        seen.append((context.task_id, context.application_id))

    builder = StreamsBuilder()
    builder.stream("in", value=int).process(look)
    with TopologyTestDriver(builder.build(), application_id="shop") as driver:
        driver.advance_wall_clock_time("3 s")
        driver.pipe_input("in", "a", 1, 50)
        driver.pipe_input("in", "a", 1, 20)
    assert seen == [
        (("in", 0, 0), 50, 3000),
        ("0_0", "shop"),
        (("in", 0, 1), 50, 3000),
        ("0_0", "shop"),
    ]


def test_stream_time_is_that_of_all_records_of_the_task(run: Run):
    def with_stream_time(record, context):
        context.forward(record.with_value(context.current_stream_time_ms))

    builder = StreamsBuilder()
    left = builder.stream("in", value=int)
    left.filter(lambda key, value: key == "seen").process(with_stream_time).to("out")
    rows = [("seen", 1, 5), ("other", 1, 90), ("seen", 1, 7), ("seen", 1, 100)]
    assert run(builder, rows).output() == [("seen", 5, 5), ("seen", 90, 7), ("seen", 100, 100)]


def test_headers_are_seen_forwarded_and_changed():
    def signed(record, context):
        context.forward(record.with_headers([*record.headers, ("by", b"me")]))

    builder = StreamsBuilder()
    builder.stream("in", value=int).process(signed).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("in", "a", 1, 5, headers=[("trace", b"1")])
        assert driver.read_output("out") == [Record("a", 1, 5, (("trace", b"1"), ("by", b"me")))]


def test_keys_that_a_processor_may_have_changed_are_repartitioned_before_grouping():
    builder, stream = source(value=int)
    stream.process(Twice).group_by_key().count("counts")
    assert "counts-repartition" in builder.build().describe()


def test_process_values_leaves_keys_and_partitions_as_they_are(run: Run):
    class PlusOne(FixedKeyProcessor):
        def init(self, context):
            self.context = context

        def process(self, record):
            self.context.forward(record.with_value((record.value or 0) + 1))

    builder, stream = source(value=int)
    counted = stream.process_values(PlusOne)
    counted.to("out")
    counted.group_by_key().count("counts")
    assert "repartition" not in builder.build().describe()
    assert run(builder, ROWS).output() == [("a", 2, 10), ("b", 6, 20), (None, 8, 15), ("a", 1, 30)]


def test_process_values_refuses_another_key(run: Run):
    builder, stream = source(value=int)
    stream.process_values(lambda record, context: context.forward(record.with_key("x"))).to("out")
    with pytest.raises(ProcessingError, match=r"cannot change the key 'a' of a record; got 'x'"):
        run(builder, ROWS).output()


def test_a_record_whose_processor_raises_is_left_out_and_what_it_forwarded_before_stays(run: Run):
    def fails_for_b(record, context):
        context.forward(record)
        if record.key == "b":
            raise ValueError("no b please")
        context.forward(record.with_value(-1))

    builder, stream = source(value=int)
    stream.process(fails_for_b, name="picky").to("out")
    ran = run(builder, ROWS[:3], on_error="skip")
    assert ran.output() == [("a", 1, 10), ("a", -1, 10), ("b", 5, 20), (None, 7, 15), (None, -1, 15)]
    assert ran.counted("skipped-records-total") == {("picky", "ValueError"): 1}


def test_an_error_says_the_record_the_function_and_the_line(run: Run):
    def fails(record, context):
        raise ValueError("no")

    builder, stream = source(value=int)
    stream.process(fails, name="picky").to("out")
    with pytest.raises(ProcessingError) as error:
        run(builder, ROWS).output()
    assert "picky failed on the record at topic 'in', partition 0, offset 0: ValueError: no" in str(error.value)
    assert "fails at" in str(error.value)
    assert 'raise ValueError("no")' in str(error.value)


@pytest.mark.parametrize("time", [-1, 1.5, None, True])
def test_a_timestamp_that_is_none_fails_its_record_alone(run: Run, time):
    def at_a_strange_time(record, context):
        context.forward(record.with_timestamp(time) if record.key == "b" else record)

    builder, stream = source(value=int)
    stream.process(at_a_strange_time).to("out")
    ran = run(builder, ROWS[:3], on_error="skip")
    assert ran.output() == [("a", 1, 10), (None, 7, 15)]


def test_forward_takes_records_only(run: Run):
    builder, stream = source(value=int)
    stream.process(lambda record, context: context.forward(("a", 1, 5))).to("out")
    with pytest.raises(ProcessingError, match=r"forward takes a Record; got \('a', 1, 5\) of type tuple"):
        run(builder, ROWS).output()


def test_a_value_of_another_type_than_the_step_says_names_the_processor(run: Run):
    builder, stream = source(value=int)
    stream.process(lambda record, context: context.forward(record.with_value("x"))).to("out")
    with pytest.raises(ProcessingError, match=r"process at .* forwarded 'x' of type str where int is expected"):
        run(builder, ROWS).output()


def test_types_of_what_is_forwarded_are_told_by_the_step(run: Run):
    def described(record, context):
        context.forward(Record(record.value or 0, f"{record.key}!", record.timestamp))

    builder, stream = source(value=int)
    stream.process(described, key=int, value=str).to("out")
    assert run(builder, ROWS[:2]).output() == [(1, "a!", 10), (5, "b!", 20)]


def test_each_task_closes_its_processor():
    closed = []

    class Closing(Processor):
        def process(self, record):
            pass

        def close(self):
            closed.append("closed")

    builder, stream = source()
    stream.process(Closing)
    TopologyTestDriver(builder.build()).close()
    assert closed == ["closed"]


class NeedsArguments(Processor):
    def __init__(self, limit):
        self.limit = limit

    def process(self, record):
        pass


SHARED = Twice()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (SHARED, "but each task makes its own"),
        (5, "process at .* takes a Processor class, .*; got 5 of type int"),
        (lambda: 5, r"the supplier must return a Processor, with a method process\(record\); got 5"),
        (lambda: SHARED, "returns the same Processor twice; it must make a new one for each task"),
        (lambda one: one, "takes a Processor class"),
        (NeedsArguments, r"takes arguments \(limit\); give a function that makes one"),
        (Processor, "the class Processor does not define process"),
    ],
)
def test_what_is_no_processor_is_refused_when_the_topology_is_built(given, message):
    _, stream = source()
    with pytest.raises(TopologyError, match=message):
        stream.process(given)


def test_a_store_that_nobody_added_is_refused_when_the_topology_is_built():
    builder, stream = source()
    stream.process(Twice, "counts")
    with pytest.raises(TopologyError, match="names a store 'counts' that does not exist"):
        builder.build()


def test_a_store_that_the_processor_is_not_connected_to_is_refused(run: Run):
    builder, stream = source()
    stream.process(lambda record, context: context.get_state_store("counts")).to("out")
    with pytest.raises(ProcessingError, match="is not connected to a store 'counts'; its stores: none"):
        run(builder, ROWS).output()


def with_headers(given: Any) -> Any:
    def forward(record: Record, context: ProcessorContext) -> None:
        headers = given if record.value == 2 else ()
        context.forward(Record(record.key, record.value, record.timestamp, headers))

    return forward


WRONG_HEADERS = [
    {"h": b"x"},
    {"ab": b"x"},
    5,
    "h",
    (("h", 5),),
    (("h", b"x", 1),),
    ("h",),
    ((5, b"x"),),
    (("\ud800", b"x"),),
]


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "with a store that others read"])
@pytest.mark.parametrize("headers", WRONG_HEADERS, ids=ascii)
def test_headers_of_a_wrong_form_fail_with_the_step_and_the_record(run: Run, headers: Any, is_shared: bool):
    builder, stream = source(value=int)
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int))
    stream.process(with_headers(headers), "counts", name="marks").to("out")
    if is_shared:
        stream.process(lambda record, context: None, "counts")
    told = r"(?s)marks failed on .*offset 1: .*headers are a tuple of pairs of a name and bytes"
    with pytest.raises(ProcessingError, match=told):
        run(builder, [("a", 1, 1), ("a", 2, 2)]).output()


def test_records_with_such_headers_are_left_out_where_those_that_fail_are(run: Run):
    builder, stream = source(value=int)
    stream.process(with_headers({"h": b"x"})).to("out")
    ran = run(builder, [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], on_error="skip")
    assert ran.output() == [("a", 1, 1), ("a", 3, 3)]


@pytest.mark.parametrize("given", [(("h", None), ("i", b"")), [("h", None), ("i", b"")], [["h", None], ["i", b""]]])
def test_a_header_may_be_null_as_in_kafka(run: Run, given: Any):
    builder, stream = source(value=int)
    stream.process(with_headers(given)).to("out")
    ran = run(builder, [("a", 2, 2)])
    assert [record.headers for record in ran.driver.read_output("out")] == [(("h", None), ("i", b""))]


@pytest.mark.parametrize("time", [-1, 2**63, 2**70])
def test_a_timestamp_outside_of_64_bits_is_refused(time: int):
    builder, stream = source(value=int)
    stream.process(lambda record, context: context.forward(record.with_timestamp(time))).to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match=f"with the timestamp {time}; that must be an int of milliseconds since"):
        driver.pipe_input("in", "a", 1, 10)
