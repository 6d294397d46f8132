"""The stores of a processor: open while it works, closed between chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from penstock.columns import Column
from penstock.errors import StoreError


class RecordView(Protocol):
    """A store as processors see it: record by record, with what they wrote."""

    on_refused: Callable[[str, str], object]

    def begin(self, keys: Column | None) -> None:
        """Open it for a chunk.

        Args:
            keys: those that the chunk will likely ask for.
        """

    def end(self) -> None:
        """Write what changed into the store, and close it."""

    def abandon(self) -> None:
        """Forget what changed, and close it."""

    def hold(self) -> None:
        """Keep it open until ``release``, whoever begins and ends in between."""

    def release(self) -> None:
        """Write what changed into the store, and close it."""

    def sync(self) -> None:
        """Write what changed into the store while it is held, and take up what others write into it."""


class Views:
    """The record views of a processor, by the names of their stores."""

    def __init__(self, views: Mapping[str, RecordView], read_only: Mapping[str, RecordView]):
        self._views = [*views.values(), *read_only.values()]
        self.on_refused: Callable[[str, str], object] | None = None
        """Called when a store leaves out what its retention has passed, with its name and what that was."""
        self.by_name: dict[str, Any] = {**views, **{name: ReadOnly(name, view) for name, view in read_only.items()}}

    @classmethod
    def union(cls, several: Iterable[Views]) -> Views:
        """All views of several processors, each once."""
        united = cls({}, {})
        united._views = list({id(view): view for views in several for view in views._views}.values())
        return united

    @contextmanager
    def open(self, keys: Column | None) -> Iterator[None]:
        """While the processor works on a chunk; what it wrote is kept unless the chunk fails.

        Args:
            keys: the keys of the chunk's records.
        """
        try:
            self.report()
            for view in self._views:
                view.begin(keys)
            yield
            for view in self._views:
                view.end()
        except BaseException:
            self.abandon()
            raise

    def report(self) -> None:
        """Be told of what the stores refuse."""
        for view in self._views if self.on_refused is not None else ():
            view.on_refused = self.on_refused  # type: ignore[assignment]

    def abandon(self) -> None:
        for view in self._views:
            view.abandon()


_WRITES = frozenset(("put", "put_all", "put_if_absent", "delete", "remove"))


class ReadOnly:
    """A global store as processors see it: only its own topic writes it (``GlobalReadOnlyDecorator``)."""

    def __init__(self, name: str, view: Any):
        self._name = name
        self._view = view

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            raise StoreError(
                f"the global store {self._name!r} cannot be changed by a processor ({name} was called): every task has "
                "a copy, which follows its topic. Write to that topic instead"
            )
        return getattr(self._view, name)
