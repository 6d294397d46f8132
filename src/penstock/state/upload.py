"""The upload of a snapshot, while its task continues."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Upload:
    """The uploads of one task, at most one at a time; used by one thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._commit = -1

    @property
    def is_under_way(self) -> bool:
        """True if an upload has begun whose result was not taken yet."""
        return self._thread is not None

    def begin(self, commit: int, publish: Callable[[], None], name: str) -> None:
        """Publish the snapshot of a commit in a thread of its own."""

        def run() -> None:
            try:
                publish()
            except BaseException as error:
                self._error = error

        self._commit, self._error = commit, None
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def taken(self, waits: bool = False) -> int | None:
        """Return the commit of a finished upload, once, or None. Raise the error of a failed one.

        Args:
            waits: wait for a running upload.
        """
        if self._thread is None or (self._thread.is_alive() and not waits):
            return None
        self._thread.join()
        self._thread = None
        if self._error is not None:
            raise self._error
        return self._commit
