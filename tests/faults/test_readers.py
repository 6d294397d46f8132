"""Four processes read committed state while the program that writes it is killed: none ever sees half a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest
import transfers

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-12"), pytest.mark.kip("892-13")]

SCRIPT = Path(transfers.__file__)
TRANSFERS = 20_000


def test_transfers_between_partitions_keep_the_sum_for_readers_in_other_processes(tmp_path: Path):
    """Each transfer is two records behind a repartition; every snapshot over all partitions has both or none."""
    base = harness.prepared(tmp_path / "base", TRANSFERS, SCRIPT)
    folder, calm = harness.copy_of(base, tmp_path / "killed"), harness.copy_of(base, tmp_path / "calm")
    readers = [harness.Program(folder, "--read", SCRIPT) for _ in range(4)]
    try:
        assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=4, script=SCRIPT) >= 8
        (folder / "done").touch()
        assert [reader.wait() for reader in readers] == [True] * 4, "".join(one.errors() for one in readers)
    finally:
        for reader in readers:
            reader.kill_what_is_left()
    assert min(int(reader.lines[-1]) for reader in readers) > 10
    assert harness.Program(calm, "--local", SCRIPT).wait()
    assert balances(folder) == balances(calm) != []


def balances(folder: Path) -> list[Any]:
    return harness.outcome(folder, transfers.topology())["balances"]
