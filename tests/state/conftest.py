"""A checkpoint: the commits of one task, as the engine keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.checkpoint import Checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)
