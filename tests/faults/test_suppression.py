"""kill -9 while results are held back: no final result comes twice, and none is missing (KIP-328)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import harness
import program
import pytest
import suppression

from penstock.faults import POINTS
from penstock.log.file.log import FileLog
from penstock.serdes import INT, STR, TimeWindowedSerde

pytestmark = [pytest.mark.slow, pytest.mark.kip("328-14")]

SCRIPT = Path(suppression.__file__)
WINDOWED = TimeWindowedSerde(STR, suppression.SIZE)


@pytest.fixture(scope="module")
def held_undisturbed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    folder = harness.copy_of(base, tmp_path_factory.mktemp("held"))
    assert harness.Program(folder, "--local", SCRIPT).wait()
    return harness.outcome(folder, suppression.topology())


def final_counts(log: FileLog) -> Counter[tuple[str, int]]:
    """The counts by user and window that have to come out, from the input alone."""
    found: Counter[tuple[str, int]] = Counter()
    for partition, end in enumerate(log.end_offsets(program.INPUT)):
        stream_time, counts = -1, Counter[tuple[str, int]]()
        for records in log.read(program.INPUT, partition, 0, end):
            for user, timestamp in zip(STR.decode_all(records.key), records.timestamp.tolist(), strict=True):
                stream_time = max(stream_time, timestamp)
                start = timestamp - timestamp % suppression.SIZE
                if start + suppression.SIZE > stream_time - suppression.GRACE:
                    counts[user, start] += 1
        closed = stream_time - suppression.GRACE - suppression.SIZE
        found.update({window: count for window, count in counts.items() if window[1] <= closed})
    return found


def rows(outcome: dict[str, Any], topic: str) -> list[tuple[bytes, bytes, int]]:
    return [row for name, some in outcome.items() if name.startswith(f"{topic}[") for row in some]


def test_undisturbed_every_result_comes_once(base: Path, held_undisturbed: dict[str, Any]) -> None:
    results = [(WINDOWED.decode(key), INT.decode(value)) for key, value, _ in rows(held_undisturbed, "windows-out")]
    found = [((window.key, window.start), count) for window, count in results]
    assert sorted(found) == sorted(final_counts(FileLog(base / "log")).items())
    sessions = [key for key, _, _ in rows(held_undisturbed, "sessions-out")]
    assert len(sessions) == len(set(sessions)) > 1000


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_repeat_no_result_and_lose_none(
    seed: int, base: Path, held_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=seed, script=SCRIPT) >= 6
    assert harness.outcome(folder, suppression.topology()) == held_undisturbed


def test_a_crash_between_any_two_steps_of_a_commit_repeats_no_result(
    base: Path, held_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", POINTS, 2, SCRIPT)
    assert harness.outcome(folder, suppression.topology()) == held_undisturbed
