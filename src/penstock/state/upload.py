"""A snapshot on its way to the storage, while its task goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Upload:
    """At most one at a time, of one task; asked by one thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._commit = -1

    @property
    def is_under_way(self) -> bool:
        """Whether one has begun that nobody has taken."""
        return self._thread is not None

    def begin(self, commit: int, publish: Callable[[], None], name: str) -> None:
        """Have the snapshot of a commit published in a thread of its own."""

        def run() -> None:
            try:
                publish()
            except BaseException as error:
                self._error = error

        self._commit, self._error = commit, None
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def taken(self, waits: bool = False) -> int | None:
        """The commit of one that has ended well, once; None if there is none. Raises what one failed with.

        Args:
            waits: for one that is under way.
        """
        if self._thread is None or (self._thread.is_alive() and not waits):
            return None
        self._thread.join()
        self._thread = None
        if self._error is not None:
            raise self._error
        return self._commit
