"""The storage at a place that a user names."""

from __future__ import annotations

from penstock.files.locations import folder
from penstock.storage.base import LocalStorage, Storage


def open_storage(url: str) -> Storage:
    """Return the storage at a URL of an object store, or in a folder."""
    if "://" not in url:
        return LocalStorage(folder(url, "checkpoint"))
    from penstock.storage.objects import ObjectStorage

    return ObjectStorage(url)
