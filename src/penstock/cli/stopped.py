"""Keeps applications stopped while a command works on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.engine.operate.lock import ApplicationLock
from penstock.settings import Settings


@contextmanager
def stopped(application: str, checkpoint: str) -> Iterator[None]:
    """Prevent programs of an application from starting on this machine while the context lasts.

    Raises:
        AlreadyRunningError: one is running.
    """
    with ExitStack() as held:
        for folder in state_folders(application, checkpoint):
            if (folder / "lock").exists():
                held.callback(ApplicationLock(folder, application).release)
        yield


def state_folders(application: str, checkpoint: str) -> set[Path]:
    """Return the folders in which a program on this machine may have its state."""
    tried = [Settings.load().state_dir or Path(".penstock") / application]
    if "://" not in checkpoint:
        tried.append(Path(checkpoint).parent)
    return {folder.resolve() for folder in tried}
