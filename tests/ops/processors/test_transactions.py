"""Processors that write their stores in transactions of their own, inside the commit of their task (KIP-892)."""

import pytest

from penstock import Record, Stores, StreamsBuilder, ValueAndTimestamp, Windowed
from penstock.state.interface import TopicPartition
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("892-03", "892-04", "44-03")


def counts(name="counts"):
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), str, int)


def transfer(record, context):
    """Move an amount from the record's key to "bank"; undo everything if there is not enough."""
    accounts = context.get_state_store("counts")
    with accounts.new_transaction() as transaction:
        transaction.put("bank", (transaction.get("bank") or 0) + record.value)
        transaction.put(record.key, (transaction.get(record.key) or 10) - record.value)
        if transaction.get(record.key) >= 0:
            transaction.commit({})
    context.forward(record.with_value([list(row) for row in accounts.all()]))


def test_what_a_transaction_commits_is_there_and_what_it_gives_up_never_was(run: Run):
    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(transfer, "counts", value=list).to("out")
    rows = [("a", 4, 1), ("a", 7, 2), ("b", 10, 3), ("a", 6, 4)]
    assert [value for _, value, _ in run(builder, rows).output()] == [
        [["a", 6], ["bank", 4]],
        [["a", 6], ["bank", 4]],
        [["a", 6], ["b", 0], ["bank", 14]],
        [["a", 0], ["b", 0], ["bank", 20]],
    ]


def test_what_is_left_open_is_committed_with_the_task():
    def keep(record, context):
        store = context.get_state_store("counts")
        store.new_transaction().put(record.key, record.value)
        context.forward(record.with_value(store.approximate_num_uncommitted_entries))

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(keep, "counts").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("in", "a", 5)
        assert driver.store("counts").get("a") == 5
        assert [record.value for record in driver.read_output("out")] == [1]


def test_a_transaction_of_a_record_that_failed_is_undone():
    def keep(record, context):
        with context.get_state_store("counts").new_transaction() as transaction:
            transaction.put(record.key, 100 // record.value)
            transaction.commit({})

    def fail(record, context):
        with context.get_state_store("counts").new_transaction() as transaction:
            transaction.put(record.key, -1)
            keep(record, context)

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(fail, "counts")
    with TopologyTestDriver(builder.build(), on_error="skip") as driver:
        driver.pipe_record_list("in", [("a", 5, 1), ("b", 0, 2), ("c", 4, 3)])
        assert list(driver.store("counts").all()) == [("a", 20, -1), ("c", 25, -1)]


@pytest.mark.kip("892-01")
@pytest.mark.filterwarnings("ignore:.*flush.. is deprecated")
def test_a_ported_processor_that_flushes_goes_on(run: Run):
    def count(record, context):
        store = context.get_state_store("counts")
        store.put(record.key, (store.get(record.key) or 0) + 1)
        store.flush()
        context.forward(record.with_value(store.get(record.key)))

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(count, "counts").to("out")
    assert run(builder, [("a", 5, 1), ("a", 5, 2), ("b", 5, 3)]).output() == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3)]


def test_a_global_store_has_no_transactions_in_processors():
    builder = StreamsBuilder()
    builder.global_table("cities", value=str, store="cities")
    builder.stream("in", value=str).process(lambda record, context: context.get_state_store("cities").new_transaction())
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(Exception, match="the global store 'cities' can"):
        driver.pipe_input("in", "a", "x")


def every_kind():
    """A store of each kind, with what is put into it, and how it is read."""
    window = Stores.persistent_window_store("s", 10_000, 1_000)
    session = Stores.in_memory_session_store("s", 10_000)
    versioned = Stores.persistent_versioned_key_value_store("s", 10_000)
    timestamped = Stores.persistent_timestamped_key_value_store("s")
    return {
        "window": (Stores.window_store_builder(window, str, int), ("a", 1, 5), lambda store: store.get("a", 5)),
        "session": (
            Stores.session_store_builder(session, str, int),
            (Windowed("a", 5, 9), 1),
            lambda store: store.fetch_session("a", 5, 9),
        ),
        "versioned": (
            Stores.versioned_key_value_store_builder(versioned, str, int),
            ("a", 1, 5),
            lambda store: (store.get("a") or (None,))[0],
        ),
        "in memory": (
            Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), str, int),
            ("a", 1),
            lambda store: store.get("a"),
        ),
        "LRU": (
            Stores.key_value_store_builder(Stores.lru_map("s", 2), str, int),
            ("a", 1),
            lambda store: store.get("a"),
        ),
        "timestamped": (
            Stores.timestamped_key_value_store_builder(timestamped, str, int),
            ("a", (1, 5)),
            lambda store: (store.get("a") or (None,))[0],
        ),
    }


@pytest.mark.parametrize("kind", every_kind())
def test_every_kind_of_store_has_transactions_in_a_processor_and_in_a_test_driver(kind):
    store, put, read = every_kind()[kind]
    put = tuple(ValueAndTimestamp(*one) if isinstance(one, tuple) and kind == "timestamped" else one for one in put)

    def write(record, context):
        own = context.get_state_store("s")
        with own.new_transaction() as transaction:
            transaction.put(*put)
            seen = read(transaction), read(own)
            if record.value:
                transaction.commit({})
        context.forward(Record(str(seen), read(own) or 0, record.timestamp))

    builder, stream = source(value=int)
    builder.add_state_store(store)
    stream.process(write, "s").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_record_list("in", [("a", 0, 5), ("a", 1, 5)])
        assert [record[:2] for record in driver.read_output("out")] == [("(1, None)", 0), ("(1, None)", 1)]
    with TopologyTestDriver(builder.build()) as driver:
        own = driver.get_state_store("s")
        with own.new_transaction() as transaction:
            transaction.put(*put)
            assert (read(transaction), read(own), transaction.is_open) == (1, None, True)
            assert transaction.approximate_num_uncommitted_entries == 1
        assert (read(own), transaction.is_open) == (None, False)
        with own.new_transaction() as transaction:
            transaction.put(*put)
            transaction.commit({})
        assert read(own) == 1


def test_offsets_are_the_engines():
    def commit(record, context):
        context.get_state_store("counts").commit({TopicPartition("a", 0): 1})

    builder, stream = source(value=int)
    builder.add_state_store(counts())
    stream.process(commit, "counts")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(Exception, match="keeps its offsets itself"):
        driver.pipe_input("in", "a", 5)
