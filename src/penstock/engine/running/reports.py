"""Where an engine reports what a program does, for those who watch the engine and not the program."""

from __future__ import annotations

from penstock.engine.commit.opening import Ends, Opened
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.progress import Progress
from penstock.errors import PenstockError


class Reports:
    """Reports nothing: of an engine that nobody watches."""

    def begin(self) -> None:
        """Begin to report: the program runs."""

    def committed(self, progress: Progress, manifest: Manifest, opened: Opened, ends: Ends) -> None:
        """Take note of a commit.

        Args:
            opened: the application as it runs now.
            ends: where the source topics ended when the commit began.
        """

    def ended(self, error: PenstockError | None) -> None:
        """Report that the program has ended, and why if it failed."""
