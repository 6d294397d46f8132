"""How much a record is taken to write into stores before any has shown it (KIP-892)."""

from __future__ import annotations

import sys

from penstock.settings import Settings

WRITES, BYTES = 64, 1024


def records_at_first(settings: Settings) -> int:
    """Return how many records the limits of uncommitted writes have room for, at least 1."""
    room = sys.maxsize
    limits = settings.statestore_uncommitted_max_records, settings.statestore_uncommitted_max_bytes
    for most, unknown in zip(limits, (WRITES, BYTES), strict=True):
        if most >= 0:
            room = min(room, most // unknown)
    return max(room, 1)
