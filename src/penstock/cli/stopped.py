"""Applications that are not to run while a command works on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.engine.operate.lock import ApplicationLock
from penstock.settings import Settings


@contextmanager
def stopped(application: str, checkpoint: str) -> Iterator[None]:
    """No program of an application can start on this machine meanwhile.

    Raises:
        AlreadyRunningError: one runs.
    """
    with ExitStack() as held:
        for folder in state_folders(application, checkpoint):
            if (folder / "lock").exists():
                held.callback(ApplicationLock(folder, application).release)
        yield


def state_folders(application: str, checkpoint: str) -> set[Path]:
    """Where a program that runs on this machine may have its state."""
    tried = [Settings.load().state_dir or Path(".penstock") / application]
    if "://" not in checkpoint:
        tried.append(Path(checkpoint).parent)
    return {folder.resolve() for folder in tried}
