"""Other processes, and the program itself, read stores while it is killed: none ever sees half a commit, nor anything
that no run has written.

``make readers`` does the same with two hundred thousand transfers, and prints what was seen of each kind of store.
"""

from __future__ import annotations

import time
from pathlib import Path

import every_kind
import harness
import known
import looking
import pytest
import readers
import transfers

from penstock import ConfigError
from penstock.query.application import open_stores
from penstock.serdes import STR

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-12"), pytest.mark.kip("892-13")]


def test_transfers_between_partitions_keep_the_sum_for_readers_in_other_processes(tmp_path: Path):
    """What a snapshot of all partitions shows, and what is on its way as of the same commit, is nothing together."""
    told = transfers.prove(tmp_path, 8_000, kills=8).readers
    assert min(checked for checked, _ in told) > 3
    assert sum(on_the_way for _, on_the_way in told) > 3


# --- every kind of store, at both levels ----------------------------------------------------------------------------

SCRIPT = Path(readers.__file__)
RECORDS = 90


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some records in each partition, all of which are written into thirty stores."""
    return harness.prepared(tmp_path_factory.mktemp("few"), RECORDS, SCRIPT)


def check_outcome(folder: Path) -> None:
    """All that came out, and all rows of all stores, are those of a run without kills."""
    found = harness.outcome(folder, every_kind.topology())
    partitions = range(every_kind.PARTITIONS)
    said = {(key, every_kind.told(n), n) for p in partitions for key, n in every_kind.records_of(p, RECORDS)}
    for name in every_kind.KINDS:
        rows = [row for p in partitions for row in found[f"{name}-out[{p}]"]]
        assert len(rows) == len(said)
        assert {(STR.decode(key), STR.decode(value), time) for key, value, time in rows} == said, name
    with_stores = open_stores(folder / "state")
    for name in every_kind.STORES:
        view = with_stores.view(name)
        assert every_kind.rows_of(name, view) == set().union(*(known.known(name, p, RECORDS) for p in partitions)), name
    with_stores.close()


@pytest.mark.kip("892-06", "44-02", "44-03", "44-04")
def test_whoever_reads_any_store_while_the_program_is_killed_sees_states_of_a_run_without_kills(
    few: Path, tmp_path: Path
) -> None:
    """Readers in the program and in two other processes hold every look at every store, at both levels, against all
    states that there are: at READ_COMMITTED that of the commit, at READ_UNCOMMITTED this one or a later one."""
    folder = harness.copy_of(few, tmp_path)
    seen = readers.prove(folder, kills=5)
    assert set(seen) == {*every_kind.STORES, *every_kind.GLOBAL}
    assert min(looked.committed for looked in seen.values()) >= 2, "commits that each store was looked at in"
    check_outcome(folder)


def wait_until_all_is_written(looker: looking.Looker) -> None:
    """Wait until every store shows all records that no commit has."""
    missing = set(every_kind.STORES)
    for _ in range(2_000):
        for name in sorted(missing):
            if looker.shows(name, RECORDS):
                missing.discard(name)
        if not missing:
            return
        time.sleep(0.05)
    raise AssertionError(f"the rows of some stores are not seen before their commit: {missing}")


@pytest.mark.kip("892-06", "44-02", "44-03", "44-04")
def test_rows_of_every_store_are_seen_before_their_commit_and_are_gone_after_a_kill(few: Path, tmp_path: Path) -> None:
    """The program commits once an hour. A kill leaves what is committed, and nobody answers for more."""
    folder = harness.copy_of(few, tmp_path)
    running = harness.Program(folder, "--on", SCRIPT)
    try:
        running.wait_for_commits(1)
        stores = open_stores(folder / "state")
        looker = looking.Looker(folder, stores)
        wait_until_all_is_written(looker)
        committed = {name: looker.look_at_committed(name) for name in every_kind.STORES}
        assert all(max(counts.values()) < RECORDS for counts in committed.values())
    finally:
        running.kill_what_is_left()
    assert {name: looker.look_at_committed(name) for name in every_kind.STORES} == committed
    for name in every_kind.STORES:
        with pytest.raises(ConfigError, match="none can be asked from here"):
            stores.view(name, every_kind.UNCOMMITTED)
    stores.close()
    assert harness.Program(folder, "--slots", SCRIPT).wait()
    assert not (folder / "wrong").exists(), (folder / "wrong").read_text()
    check_outcome(folder)
