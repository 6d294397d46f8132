"""How many uncommitted writes the stores of tasks hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from penstock.state.task_state import TaskState

ENTRIES, BYTES = "approximate_num_uncommitted_entries", "approximate_num_uncommitted_bytes"


@contextmanager
def most_held(figure: str) -> Iterator[list[int]]:
    """What the stores of each task hold when a commit is prepared, where they hold most."""
    held: list[int] = [0]
    prepare = TaskState.prepare
    with patch.object(TaskState, "prepare", lambda self: (held.append(getattr(self, figure)), prepare(self))[1]):
        yield held
