"""Reads of a versioned store behind its history, by a processor (914-13)."""

from __future__ import annotations

import logging

import pytest

from penstock import Stores, StreamsBuilder
from penstock.testing import TopologyTestDriver


@pytest.mark.kip("914-13")
def test_a_read_behind_the_history_is_none_and_warns_once(caplog: pytest.LogCaptureFixture):
    def look(record, context):
        store = context.get_state_store("prices")
        store.put(record.key, record.value, record.timestamp)
        for time in (record.timestamp, record.timestamp - 100, record.timestamp - 101, record.timestamp - 102):
            found = store.get(record.key, time)
            context.forward(record.with_value(None if found is None else found.value))

    supplier = Stores.persistent_versioned_key_value_store("prices", 100)
    builder = StreamsBuilder()
    builder.add_state_store(Stores.versioned_key_value_store_builder(supplier, str, int))
    builder.stream("in", value=int).process(look, "prices").to("out")
    driver = TopologyTestDriver(builder.build())
    with caplog.at_level(logging.WARNING):
        driver.pipe_input("in", "tea", 1, 1000)
        driver.pipe_input("in", "tea", 2, 1100)
    assert [record.value for record in driver.read_output("out")] == [1, None, None, None, 2, 1, None, None]
    assert [record.getMessage() for record in caplog.records if "history" in record.getMessage()] == [
        "the store 'prices' was read as of 899, but its history reaches back to 900: the answer is None, and so are "
        "further ones, which are not logged. Give the store a longer history retention"
    ]
