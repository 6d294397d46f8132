"""The keys that a persistent store without transactions is writing, in a file beside its own.

A process that is killed leaves the writes of its running attempt in such a store. The next start gives these keys
their committed values back.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_LENGTH = 4


class BegunKeys:
    """Keys that were written since the last commit; those of a process that was killed are there from the beginning.

    Nothing waits for the disk: a killed process loses no key, only a power cut does.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> begun = BegunKeys(Path(folder.name, "words.begun"))
    >>> begun.add(b"tea")
    >>> BegunKeys(begun.path).keys
    {b'tea'}
    >>> begun.clear()
    >>> BegunKeys(begun.path).keys
    set()
    >>> begun.close()

    Args:
        path: the file; it need not exist.
    """

    def __init__(self, path: Path):
        self.path = path
        self.keys: set[bytes] = set()
        self._file: BinaryIO | None = None
        if path.exists():
            self._read()

    def _read(self) -> None:
        data, at = self.path.read_bytes(), 0
        while (start := at + _LENGTH) <= len(data):
            end = start + int.from_bytes(data[at:start], "big")
            if end > len(data):
                break  # torn: its write had not begun
            self.keys.add(data[start:end])
            at = end
        self._open().truncate(at)

    def add(self, key: bytes) -> None:
        """Note a key before its store is written."""
        if key not in self.keys:
            self._open().write(len(key).to_bytes(_LENGTH, "big") + key)
            self.keys.add(key)

    def clear(self) -> None:
        """Forget all keys: what was written is committed, or undone."""
        if self.keys:
            self._open().truncate(0)
            self.keys = set()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - until it is closed
        return self._file
