"""One partition of a store, and how far partitions are behind (KS-20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import ConfigError, IsolationLevel, StreamsBuilder, TimeWindows, produce
from penstock.engine.operate.restores import LagInfo, Restores
from penstock.state.restoring import BATCH, END, START, RestoreStep
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-20")

FRUIT = ["apple", "fig", "lime", "pear"]


def program() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.group_by_key().count("counts")
    stream.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 0)).count("windows")
    return builder


def driver() -> TopologyTestDriver:
    driver = TopologyTestDriver(program().build(), partitions=2)
    for number, key in enumerate(FRUIT):
        driver.pipe_input("in", key, "x", number)
    return driver


def test_the_partitions_of_a_store_have_each_row_once():
    counts = driver().store("counts")
    parts = [[row[0] for row in counts.of_partition(number).all()] for number in (0, 1)]
    assert sorted(parts[0] + parts[1]) == FRUIT
    assert parts == [["fig", "lime"], ["apple", "pear"]]
    assert (counts.of_partition(1).get("pear"), counts.of_partition(0).get("pear")) == (1, None)
    assert counts.of_partition(1).snapshot().get("pear") == 1
    assert counts.of_partition(1).read_only(IsolationLevel.READ_UNCOMMITTED).get("fig") is None


def test_windows_too_have_partitions():
    windows = driver().store("windows")
    parts = [sorted({row[0].key for row in windows.of_partition(number).all()}) for number in (0, 1)]
    assert parts == [["fig", "lime"], ["apple", "pear"]]


@pytest.mark.parametrize("wrong", [2, -1, "0", True])
def test_a_partition_that_is_not_there_is_refused(wrong: object):
    with pytest.raises(ConfigError, match=r"the store 'counts' has no partition .*; its partitions: 0, 1"):
        driver().store("counts").of_partition(wrong)


def test_a_running_program_gives_one_partition_and_its_lags(tmp_path: Path):
    log = str(tmp_path / "log")
    produce([(key, "x") for key in FRUIT], "in", value=str, log=log, partitions=2)
    with program().build().start("app", engine="local", log=log, state_dir=tmp_path / "state", slots=1) as streams:
        streams.process_all_available()
        assert [row[0] for row in streams.store("counts", partition=1).all()] == ["apple", "pear"]
        commit = streams.last_progress.commit
        lags = {number: LagInfo(commit, commit) for number in (0, 1)}
        assert streams.all_local_store_partition_lags() == {"counts": lags, "windows": lags}
    with pytest.raises(ConfigError, match="was stopped"):
        streams.all_local_store_partition_lags()


def test_a_store_that_is_being_restored_is_behind():
    restores = Restores("app")
    assert restores.reached("0_0", "counts") is None
    restores.hear(RestoreStep(START, "0_0", "counts", -1, 9))
    restores.hear(RestoreStep(BATCH, "0_0", "counts", 4, 9, 100))
    assert restores.reached("0_0", "counts") == 4
    restores.hear(RestoreStep(END, "0_0", "counts", 9, 9, 200))
    assert restores.reached("0_0", "counts") is None
    assert LagInfo(4, 9).offset_lag == 5
