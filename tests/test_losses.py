"""Records that did not go on: counted by Kafka's names, and told in a warning now and then."""

from __future__ import annotations

import pytest

from penstock import losses
from penstock.losses import Loss, LossCounter
from penstock.progress import Progress

LATE = "0_0|tens|expired-window|dropped-records-total"
LATE_ELSEWHERE = "0_1|tens|expired-window|dropped-records-total"
NO_KEY = "0_0|tens|null-key|dropped-records-total"
OF_STORE = "0_0|tens|expired-window-of-store|dropped-records-total"
SKIPPED = "0_0|number|ValueError|skipped-records-total"
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
    counter = LossCounter("app", {LATE: 5})
    counter.after(1, {LATE: 5, NO_KEY: 100})
    assert caplog.messages == []
    for commit in range(2, 50):
        counter.after(commit, {LATE: 5 + commit, SKIPPED: 1})
    now += 60.0
    counter.after(50, {LATE: 100, SKIPPED: 1})
    counter.after(51, {LATE: 100, SKIPPED: 1})
    more = "`penstock explain PROGRAM --losses` tells why and what helps"
    assert caplog.messages == [
        "application 'app', up to commit 2: 2 records dropped as late by tens (expired-window); 1 record skipped by "
        f"number (ValueError); {more}",
        f"application 'app', up to commit 50: 93 records dropped as late by tens (expired-window); {more}",
    ]


def test_progress_has_the_losses_as_objects():
    progress = Progress("app", 1, 9, 9, 0, 0.5, (Loss("late-record-drop-total", "tens", "expired-window", 7),))
    assert (progress.lost, progress.to_dict()["losses"]) == (
        7,
        [{"metric": "late-record-drop-total", "node": "tens", "reason": "expired-window", "records": 7}],
    )
