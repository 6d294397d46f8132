"""Processors that are wrapped for a whole program (KS-20, KIP-1112)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    ConfigError,
    FixedKeyProcessor,
    Processor,
    ProcessorSupplier,
    ProcessorWrapper,
    Stores,
    TopologyError,
)
from penstock.testing import TopologyTestDriver
from support.flows import source

pytestmark = pytest.mark.kip("KS-20")


def seen_store() -> Any:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store("seen"), str, int)


class Counted(Processor):
    """Counts what the processor inside it gets, in a store of its own."""

    def __init__(self, inner: Any, name: str):
        self.inner, self.name = inner, name

    def init(self, context):
        self.seen = context.get_state_store("seen")
        self.inner.init(context)

    def process(self, record):
        self.seen.put(self.name, (self.seen.get(self.name) or 0) + 1)
        self.inner.process(record)

    def close(self):
        self.inner.close()


class Counting(ProcessorWrapper):
    def configure(self, configs):
        self.unit = configs["default_dsl_store"]

    def wrap_processor_supplier(self, processor_name, supplier):
        unit = self.unit

        class Wrapped(ProcessorSupplier):
            def get(self):
                return Counted(supplier.get(), f"{processor_name} {unit}")

            def stores(self):
                return [seen_store()]

        return Wrapped()


class Twice(Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record.with_value(2 * record.value))


class Plus(FixedKeyProcessor):
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record.with_value(record.value + 1))


def program() -> Any:
    builder, stream = source(value=int)
    stream.filter(lambda key, value: value < 10).process(Twice, name="twice").process_values(Plus, name="plus").to(
        "out"
    )
    return builder.build()


def test_a_wrapper_wraps_processors_and_brings_its_stores():
    topology = program()
    driver = TopologyTestDriver(topology, processor_wrapper_class=Counting, default_dsl_store="in_memory")
    for value in (1, 20, 3):
        driver.pipe_input("in", "a", value)
    assert [record.value for record in driver.read_output("out")] == [3, 7]
    assert [row[:2] for row in driver.store("seen").all()] == [("twice in_memory", 2)]
    assert "stores: [seen]" in driver.topology.describe()
    assert "seen" not in topology.describe(), "the program itself is as it was"


def test_processors_that_keep_keys_have_a_method_of_their_own():
    class Fixed(ProcessorWrapper):
        def wrap_fixed_key_processor_supplier(self, processor_name, supplier):
            assert processor_name == "plus"
            return lambda: Hundred(supplier.get())

    class Hundred(FixedKeyProcessor):
        def __init__(self, inner):
            self.inner = inner

        def init(self, context):
            self.inner.init(context)

        def process(self, record):
            self.inner.process(record.with_value(record.value + 100))

    driver = TopologyTestDriver(program(), processor_wrapper_class=Fixed())
    driver.pipe_input("in", "a", 1)
    assert [record.value for record in driver.read_output("out")] == [103]


def test_a_wrapper_may_be_named_and_what_is_none_is_refused():
    driver = TopologyTestDriver(program(), processor_wrapper_class=f"{__name__}:Counting")
    driver.pipe_input("in", "a", 1)
    assert [record.value for record in driver.read_output("out")] == [3]
    for wrong in (dict, "nowhere:Counting"):
        with pytest.raises(ConfigError, match="processor_wrapper_class must be"):
            TopologyTestDriver(program(), processor_wrapper_class=wrong)


def test_a_wrapper_that_returns_no_supplier_is_refused():
    class Nothing(ProcessorWrapper):
        def wrap_processor_supplier(self, processor_name, supplier):
            return None

    with pytest.raises(TopologyError, match=r"Nothing.wrap_processor_supplier, for twice"):
        TopologyTestDriver(program(), processor_wrapper_class=Nothing)
