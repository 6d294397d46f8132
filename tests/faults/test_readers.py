"""Four processes read committed state while the program that writes it is killed: none ever sees half a commit.

``make readers`` does the same with two hundred thousand transfers.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import transfers

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-12"), pytest.mark.kip("892-13")]


def test_transfers_between_partitions_keep_the_sum_for_readers_in_other_processes(tmp_path: Path):
    """What a snapshot of all partitions shows, and what is on its way as of the same commit, is nothing together."""
    told = transfers.prove(tmp_path, 8_000, kills=8).readers
    assert min(checked for checked, _ in told) > 3
    assert sum(on_the_way for _, on_the_way in told) > 3
