"""Folders for files that need no disk."""

from pathlib import Path

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where Linux has a folder in memory, for tests that write many small files durably; None for any other place."""
