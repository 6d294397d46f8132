"""Records that did not go on: counted by Kafka's names, and told in a warning now and then."""

from __future__ import annotations

from functools import partial

import pytest

from penstock.engine.shared.progress import Progress
from penstock.figures import losses
from penstock.figures.losses import Loss, LossCounter
from penstock.figures.metrics import Metric, Rates

LATE = "0_0|tens|expired-window|dropped-records-total"
LATE_ELSEWHERE = "0_1|tens|expired-window|dropped-records-total"
NO_KEY = "0_0|tens|null-key|dropped-records-total"
OF_STORE = "0_0|tens|expired-window-of-store|dropped-records-total"
SKIPPED = "0_0|number|ValueError|skipped-records-total"
BEYOND = "0_0|prices|versioned|beyond-history-lookups-total"
DEAD = "0_0|number|SerdeError|dead-letter-records-total"


@pytest.mark.kip("328-10", "328-11", "328-13")
def test_losses_have_kafkas_names_and_are_those_of_all_tasks_since_the_start():
    counter = LossCounter("app", {LATE: 5, NO_KEY: 1})
    figures = {
        LATE: 7,
        LATE_ELSEWHERE: 1,
        NO_KEY: 1,
        OF_STORE: 4,
        SKIPPED: 2,
        DEAD: 1,
        "0_0|tens||late-record-drop-total": 8,
    }
    assert counter.after(3, figures) == (
        Loss("expired-window-record-drop-total", "tens", "expired-window-of-store", 4),
        Loss("late-record-drop-total", "tens", "expired-window", 3),
        Loss("skipped-records-total", "number", "ValueError", 2),
        Loss("dead-letter-records-total", "number", "SerdeError", 1),
    )


def test_there_is_one_warning_a_minute_and_none_for_what_has_only_no_key(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(losses.time, "monotonic", lambda: now)
    counter = LossCounter("app", {OF_STORE: 5})
    counter.after(1, {OF_STORE: 5, NO_KEY: 100})
    assert caplog.messages == []
    for commit in range(2, 50):
        counter.after(commit, {OF_STORE: 5 + commit, SKIPPED: 1})
    now += 60.0
    counter.after(50, {OF_STORE: 100, SKIPPED: 1})
    counter.after(51, {OF_STORE: 100, SKIPPED: 1})
    more = "`penstock explain PROGRAM --losses` tells why and what helps"
    assert caplog.messages == [
        "application 'app', up to commit 2: 2 records dropped as expired by tens (expired-window-of-store); "
        f"1 record skipped by number (ValueError); {more}",
        f"application 'app', up to commit 50: 93 records dropped as expired by tens (expired-window-of-store); {more}",
    ]


@pytest.mark.kip("328-10")
def test_late_records_are_counted_and_never_a_warning(caplog):
    counter = LossCounter("app", {})
    assert [loss.records for loss in counter.after(1, {LATE: 7})] == [7]
    assert caplog.messages == []


@pytest.mark.kip("914-04")
def test_look_ups_that_a_history_does_not_reach_are_a_warning_once_a_minute_and_no_losses(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(losses.time, "monotonic", lambda: now)
    counter = LossCounter("app", {})
    for commit in range(1, 50):
        assert counter.after(commit, {BEYOND: 2 * commit}) == ()
    now += 60.0
    counter.after(50, {BEYOND: 100})
    more = "`penstock explain PROGRAM --losses` tells why and what helps"
    assert caplog.messages == [
        f"application 'app', up to commit {commit}: {count} records older than the history, and so without a value of "
        f"the table, by prices (history-retention); {more}"
        for commit, count in [(1, 2), (50, 98)]
    ]


def test_progress_has_the_losses_as_objects():
    progress = Progress("app", 1, 9, 9, 0, 0.5, (Loss("late-record-drop-total", "tens", "expired-window", 7),))
    assert (progress.lost, progress.to_dict()["losses"]) == (
        7,
        [{"metric": "late-record-drop-total", "node": "tens", "reason": "expired-window", "records": 7}],
    )


@pytest.mark.kip("328-10", "328-11", "328-12", "655-16")
def test_each_total_has_a_rate_over_the_last_half_minute():
    now = 1000.0
    names = [
        "late-record-drop",
        "expired-window-record-drop",
        "suppression-emit",
        "duplicates-dropped",
    ]

    def figures(count: int) -> dict[str, int]:
        return {f"0_0|step||{name}-total": count for name in names} | {"0_0|step||entries-stored-current": count}

    rates = Rates(figures(40), lambda: now)
    for _ in range(12):  # 3 in each of 60 seconds, then nothing
        now += 5
        rates.after(partial(figures, 40 + 3 * int(now - 1000)))
    found = rates.readable(figures(220), "app")
    assert {(m.name, m.node, m.task, m.client): rate for m, rate in found.items()} == {
        (f"{name}-rate", "step", "0_0", "app"): 3.0 for name in names
    }
    now += 15
    assert set(rates.readable(figures(220)).values()) == {1.5}
    now += 60
    assert set(rates.readable(figures(220)).values()) == {0.0}


@pytest.mark.kip("328-11")
def test_a_rate_is_in_the_group_and_has_the_tags_of_its_total():
    total, rate = (Metric(f"expired-window-record-drop-{end}", "kept", "window", "0_0") for end in ("total", "rate"))
    assert (
        (rate.group, rate.tags)
        == (total.group, total.tags)
        == (
            "stream-window-state-metrics",
            {"task-id": "0_0", "window-state-id": "kept"},
        )
    )
