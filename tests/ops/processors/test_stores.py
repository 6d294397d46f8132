"""Stores that processors read and write: their own, those of tables, those that several share."""

import pytest

from penstock import (
    STREAM_TIME,
    ProcessingError,
    Processor,
    ProcessorSupplier,
    Record,
    StoreError,
    Stores,
    StreamsBuilder,
    TopologyError,
)
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-01", "KS-03")


def counts(name="counts"):
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), str, int)


def counter(store="counts", forwards=True):
    """Counts the records of each key, and forwards the count."""

    class Counter(Processor):
        def init(self, context):
            self.context = context
            self.store = context.get_state_store(store)

        def process(self, record):
            count = (self.store.get(record.key) or 0) + 1
            self.store.put(record.key, count)
            if forwards:
                self.context.forward(record.with_value(count))

    return Counter


ROWS = [("a", 5, 10), ("b", 6, 11), ("a", 7, 12), ("a", 8, 13), ("b", 9, 14)]


def test_a_processor_reads_what_it_wrote(run: Run):
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(counter(), "counts").to("out")
    assert run(builder, ROWS).output() == [("a", 1, 10), ("b", 1, 11), ("a", 2, 12), ("a", 3, 13), ("b", 2, 14)]


def test_a_supplier_brings_its_own_store(run: Run):
    class Supplier(ProcessorSupplier):
        def get(self):
            return counter()()

        def stores(self):
            return [counts()]

    builder, stream = source(value=int)
    stream.process(Supplier()).to("out")
    assert [row[1] for row in run(builder, ROWS).output()] == [1, 1, 2, 3, 2]


def test_two_processors_share_a_store_record_by_record(run: Run):
    # Each record goes to the first, then to the second, before the next one comes.
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(counter(), "counts").to("out")
    stream.process(counter(), "counts").to("others")
    ran = run(builder, ROWS)
    assert ran.output() == [("a", 1, 10), ("b", 1, 11), ("a", 3, 12), ("a", 5, 13), ("b", 3, 14)]
    assert ran.output("others") == [("a", 2, 10), ("b", 2, 11), ("a", 4, 12), ("a", 6, 13), ("b", 4, 14)]


def test_processors_behind_one_another_share_a_store_record_by_record(run: Run):
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(counter(), "counts").process(counter(), "counts").to("out")
    assert [row[1] for row in run(builder, ROWS).output()] == [2, 2, 4, 6, 4]


def test_what_goes_to_several_steps_goes_down_each_of_them_to_the_end_before_the_next(run: Run):
    # Behind the first processor are a sink, a processor that shares its store, and another sink of the same topic.
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    first = stream.process(counter(), "counts")
    first.map_values(lambda value: 10 * value).to("out")
    first.process(counter(), "counts").to("out")
    first.map_values(lambda value: 100 * value).to("out")
    assert [row[1] for row in run(builder, ROWS[:3]).output()] == [10, 2, 100, 10, 2, 100, 30, 4, 300]


def test_a_step_of_the_dsl_between_two_processors_that_share_a_store_changes_nothing(run: Run):
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    behind = stream.process(counter(), "counts").filter(lambda key, value: value < 3)
    behind.process(counter(), "counts").to("out")
    assert run(builder, ROWS).output() == [("a", 2, 10), ("b", 2, 11)]


def test_a_processor_behind_another_that_fails_leaves_the_one_in_front_going_on(run: Run):
    def picky(record, context):
        context.get_state_store("counts")
        if record.value == 2:
            raise ValueError("no two")
        context.forward(record)

    def both(record, context):
        context.forward(record.with_value(context.get_state_store("counts").get(record.key) or 0))
        context.get_state_store("counts").put(record.key, record.value)
        context.forward(record.with_value(-1), child="aside")

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    first = stream.process(both, "counts")
    first.process(picky, "counts", name="picky").to("out")
    first.filter(lambda key, value: value == -1, name="aside").to("others")
    ran = run(builder, [("a", 2, 1), ("a", 3, 2), ("a", 4, 3)], on_error="skip")
    assert ran.output() == [("a", 0, 1), ("a", 3, 3)]
    assert ran.output("others") == [("a", -1, 1), ("a", -1, 2), ("a", -1, 3)]
    assert ran.counted("skipped-records-total") == {("picky", "ValueError"): 1}


def test_a_failure_that_stops_the_program_is_not_swallowed_by_the_processor_in_front(run: Run):
    def careless(record, context):
        try:
            context.forward(record)
        except Exception:
            pass

    def failing(record, context):
        raise ValueError("stop")

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(careless, "counts").process(failing, "counts", name="failing").to("out")
    with pytest.raises(ProcessingError, match=r"failing failed on the record .*ValueError: stop"):
        run(builder, ROWS).output()


def test_processors_that_share_a_store_are_called_in_the_order_in_which_their_times_come(run: Run):
    def emptied(interval, name):
        class Emptied(Processor):
            def init(self, context):
                self.context = context
                context.schedule(interval, STREAM_TIME, self.empty)

            def empty(self, now):
                rows = list(self.context.get_state_store("counts").all())
                self.context.forward(Record(name, len(rows), now))
                for key, _ in rows:
                    self.context.get_state_store("counts").delete(key)

            def process(self, record):
                self.context.get_state_store("counts").put(record.key, record.value)

        return Emptied

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    ten = stream.process(emptied("10 ms", "ten"), "counts")
    ten.merge(stream.process(emptied("7 ms", "seven"), "counts")).to("out")
    rows = [("a", 1, 0), ("b", 2, 8), ("c", 3, 9), ("d", 4, 10), ("e", 5, 30)]
    assert run(builder, rows).output() == [
        ("ten", 1, 0),
        ("seven", 0, 0),
        ("seven", 1, 8),
        ("ten", 2, 10),
        ("seven", 1, 30),
        ("ten", 0, 30),
    ]


def test_process_values_in_a_group_keeps_keys(run: Run):
    def value_of(record, context):
        context.forward(record.with_value(context.get_state_store("counts").get(record.key)))

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(counter(), "counts").process_values(value_of, "counts").to("out")
    assert [row[:2] for row in run(builder, ROWS).output()] == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]


def test_processors_of_two_topics_that_share_a_store_are_one_sub_topology(run: Run):
    builder = StreamsBuilder()
    builder.add_state_store(counts())
    builder.stream("in", value=int).process(counter(), "counts").to("out")
    builder.stream("other", value=int).process(counter(forwards=False), "counts").to("nowhere")
    topology = builder.build()
    assert len(topology.sub_topologies) == 1
    rows = [("in", "a", 1, 1), ("in", "a", 1, 2), ("other", "a", 1, 3), ("other", "a", 1, 4), ("in", "a", 1, 5)]
    assert run(topology, rows).output() == [("a", 1, 1), ("a", 2, 2), ("a", 5, 5)]


def test_a_processor_reads_a_table_as_it_is_when_its_turn_comes(run: Run):
    def with_limit(record, context):
        limit = context.get_state_store("limits").get(record.key)
        context.forward(record.with_value(limit and limit.value))

    builder = StreamsBuilder()
    builder.table("limits", value=int, store="limits")
    builder.stream("in", value=int).process(with_limit, "limits").to("out")
    rows = [
        ("in", "a", 1, 1),
        ("limits", "a", 10, 2),
        ("in", "a", 1, 3),
        ("in", "b", 1, 4),
        ("limits", "a", 20, 5),
        ("limits", "b", 30, 6),
        ("in", "a", 1, 7),
        ("in", "b", 1, 8),
        ("limits", "a", None, 9),
        ("in", "a", 1, 10),
    ]
    assert run(builder, rows).output() == [
        ("a", None, 1),
        ("a", 10, 3),
        ("b", None, 4),
        ("a", 20, 7),
        ("b", 30, 8),
        ("a", None, 10),
    ]


def test_a_processor_finds_in_a_global_table_what_was_there_at_its_turn(run: Run):
    def look_up(record, context):
        city = context.get_state_store("cities").get(record.key)
        context.forward(record.with_value(city and city.value))

    builder = StreamsBuilder()
    builder.global_table("other", value=int, store="cities")
    builder.stream("in", value=int).process(look_up).to("out")
    rows = [("in", "a", 0, 1), ("other", "a", 1, 2), ("in", "a", 0, 3), ("other", "a", 2, 4), ("in", "a", 0, 5)]
    assert run(builder, rows).output() == [("a", None, 1), ("a", 1, 3), ("a", 2, 5)]


def test_a_global_store_holds_what_its_own_processor_puts_into_it(run: Run):
    def keep(record, context):
        context.get_state_store("by-city").put(record.value, record.key)

    def look_up(record, context):
        context.forward(record.with_value(context.get_state_store("by-city").get(record.value)))

    builder = StreamsBuilder()
    by_city = Stores.key_value_store_builder(Stores.in_memory_key_value_store("by-city"), int, str)
    builder.add_global_store(by_city, "other", keep, value=int)
    builder.stream("in", value=int).process(look_up, value=str).to("out")
    rows = [("in", "x", 7, 1), ("other", "OSL", 7, 2), ("in", "x", 7, 3), ("other", "BGO", 7, 4), ("in", "y", 7, 5)]
    assert run(builder, rows).output() == [("x", None, 1), ("x", "OSL", 3), ("y", "BGO", 5)]


def test_a_global_store_is_read_without_being_connected_and_not_written():
    def look_up(record, context):
        city = context.get_state_store("cities").get(record.value)
        context.forward(record.with_value(city and city.value))
        if record.key == "wrong":
            context.get_state_store("cities").put("OSL", "Bergen")

    builder = StreamsBuilder()
    builder.global_table("cities", value=str, store="cities")
    builder.stream("in", value=str).process(look_up).to("out")
    with TopologyTestDriver(builder.build(), on_error="skip") as driver:
        driver.pipe_input("cities", "OSL", "Oslo")
        driver.pipe_input("in", "a", "OSL")
        driver.pipe_input("in", "wrong", "OSL")
        driver.pipe_input("in", "c", "OSL")
        assert [record[:2] for record in driver.read_output("out")] == [("a", "Oslo"), ("wrong", "Oslo"), ("c", "Oslo")]
        assert {(m.reason, count) for m, count in driver.metrics().items() if m.name == "skipped-records-total"} == {
            ("StoreError", 1)
        }


def test_a_punctuation_reads_and_writes_the_store(run: Run):
    class Emptied(Processor):
        def init(self, context):
            self.context = context
            self.store = context.get_state_store("counts")
            context.schedule("10 ms", STREAM_TIME, self.empty)

        def empty(self, now):
            for key, count in list(self.store.all()):
                self.context.forward(Record(key, count, now))
                self.store.delete(key)

        def process(self, record):
            self.store.put(record.key, (self.store.get(record.key) or 0) + record.value)

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(Emptied, "counts").to("out")
    rows = [("a", 1, 5), ("b", 2, 6), ("a", 4, 7), ("c", 8, 12), ("a", 16, 13), ("b", 32, 99)]
    assert run(builder, rows).output() == [
        ("a", 1, 5),
        ("a", 4, 12),
        ("b", 2, 12),
        ("c", 8, 12),
        ("a", 16, 99),
        ("b", 32, 99),
    ]


def test_a_store_kept_beyond_its_chunk_is_refused_with_the_way_out():
    kept = []
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(lambda record, context: kept.append(context.get_state_store("counts")), "counts")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("in", "a", 1)
        with pytest.raises(StoreError, match="can only be used while its processor works"):
            kept[0].get("a")


def test_what_a_failed_record_wrote_before_it_failed_stays_as_in_kafka_streams(run: Run):
    def fails_after_put(record, context):
        store = context.get_state_store("counts")
        store.put(record.key, record.value)
        if record.value == 7:
            raise ValueError("seven")
        context.forward(record.with_value(len(list(store.all()))))

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(fails_after_put, "counts").to("out")
    ran = run(builder, [("a", 5, 1), ("b", 7, 2), ("c", 8, 3)], on_error="skip")
    assert ran.output() == [("a", 1, 1), ("c", 3, 3)]


def test_a_value_of_a_wrong_type_is_refused_by_the_put():
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(
        lambda record, context: context.get_state_store("counts").put(record.key, "x"), "counts", name="wrong"
    )
    with TopologyTestDriver(builder.build(), on_error="skip") as driver:
        driver.pipe_input("in", "a", 1)
        assert {(m.node, m.reason) for m in driver.metrics() if m.name == "skipped-records-total"} == {
            ("wrong", "SerdeError")
        }


def test_two_stores_of_one_name_are_refused():
    builder, _ = source()
    builder.add_state_store(counts())
    with pytest.raises(TopologyError, match="a store 'counts' was added already, by another builder"):
        builder.add_state_store(counts().with_logging_disabled())


def test_a_store_with_the_name_of_a_tables_is_refused():
    builder, _ = source()
    builder.add_state_store(counts())
    builder.table("limits", value=int, store="counts")
    with pytest.raises(TopologyError, match="two stores have the name 'counts'"):
        builder.build()


def test_what_is_no_builder_is_refused():
    builder, _ = source()
    with pytest.raises(TopologyError, match="takes the builder of a store, such as Stores"):
        builder.add_state_store("counts")


def test_a_global_store_cannot_be_connected():
    builder, stream = source()
    builder.global_table("cities", store="cities")
    stream.process(lambda record, context: None, "cities")
    with pytest.raises(TopologyError, match="reads global stores without being connected"):
        builder.build()
