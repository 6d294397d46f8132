"""A processor tested alone, with a context that keeps what it does (KS-20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import ConfigError, ProcessingError, Processor, PunctuationType, Record, Stores
from penstock.serdes import INT
from penstock.testing import MockProcessorContext

pytestmark = pytest.mark.kip("KS-20")


class Totals(Processor):
    """Adds up, forwards the total, and every minute those of all keys."""

    def init(self, context):
        self.context = context
        self.totals = context.get_state_store("totals")
        self.seen = context.metrics.add_sensor("seen").add("seen-total")
        self.every_minute = context.schedule("1 minute", PunctuationType.STREAM_TIME, self.tell)

    def process(self, record):
        self.seen.record()
        total = (self.totals.get(record.key) or 0) + record.value
        self.totals.put(record.key, total)
        self.context.forward(record.with_value(total), "large" if total > 9 else None)
        if total > 99:
            self.context.commit()
            self.every_minute.cancel()

    def tell(self, now):
        for key, total in self.totals.all():
            self.context.forward(Record(key, total, now))


def ready() -> tuple[MockProcessorContext, Totals]:
    context, totals = MockProcessorContext(), Totals()
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("totals"), str, int)
    context.add_state_store(store)
    totals.init(context)
    return context, totals


def test_what_is_forwarded_is_kept_with_the_step_that_was_named():
    context, totals = ready()
    for value in (4, 6):
        totals.process(Record("a", value, 1))
    assert context.forwarded() == [(Record("a", 4, 1), None), (Record("a", 10, 1), "large")]
    assert context.forwarded("small") == [(Record("a", 4, 1), None)]
    context.reset_forwards()
    assert context.forwarded() == []
    assert context.get_state_store("totals").get("a") == 10


def test_punctuations_wait_for_the_test():
    context, totals = ready()
    totals.process(Record("a", 4, 1))
    context.reset_forwards()
    (scheduled,) = context.scheduled_punctuators()
    assert (scheduled.interval_ms, scheduled.type) == (60_000, PunctuationType.STREAM_TIME)
    scheduled.punctuator(60_000)
    assert context.forwarded() == [(Record("a", 4, 60_000), None)]
    totals.process(Record("a", 96, 1))
    assert scheduled.cancelled


def test_commits_and_figures_are_noted():
    context, totals = ready()
    totals.process(Record("a", 4, 1))
    assert not context.committed
    totals.process(Record("a", 96, 1))
    assert context.committed
    context.reset_commit()
    assert not context.committed
    assert {metric.name: figure for metric, figure in context.recorded().items()} == {"seen-total": 2}


def test_it_tells_what_was_set_and_refuses_what_was_not(tmp_path: Path):
    context = MockProcessorContext("1_2", "shop", state_dir=tmp_path, default_value_serde=int)
    assert (context.task_id, context.application_id, context.state_dir) == ("1_2", "shop", tmp_path)
    assert (context.value_serde, context.app_configs_with_prefix("default_value_")) == (INT, {"serde": int})
    assert context.app_configs()["processing_guarantee"] == "exactly_once"
    assert context.record_metadata is None
    context.set_record_metadata("in", 3, 7)
    assert context.record_metadata == ("in", 3, 7)
    for name in ("current_stream_time_ms", "current_system_time_ms"):
        with pytest.raises(ConfigError, match=f"set_{name}"):
            getattr(context, name)
        getattr(context, f"set_{name}")(5)
        assert getattr(context, name) == 5
    with pytest.raises(ConfigError, match="state_dir="):
        MockProcessorContext().state_dir  # noqa: B018
    with pytest.raises(ProcessingError, match="there is no store 'totals'"):
        context.get_state_store("totals")
    with pytest.raises(ProcessingError, match="forward takes a Record"):
        context.forward("a")


def test_a_store_that_is_given_is_handed_on_as_it_is():
    class Own:
        name = "own"

    context, own = MockProcessorContext(), Own()
    context.add_state_store(own)
    assert context.get_state_store("own") is own
