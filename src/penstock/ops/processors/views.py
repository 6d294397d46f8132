"""The stores of a processor: open while it works, and closed between chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from penstock.columns.column import Column
from penstock.errors import StoreError


class RecordView(Protocol):
    """A store as processors see it: one record at a time, including their own writes."""

    on_refused: Callable[[str, str], object]

    def begin(self, keys: Column | None) -> None:
        """Open it for a chunk.

        Args:
            keys: the keys that the chunk will probably ask for.
        """

    def end(self) -> None:
        """Write the changes into the store, and close it."""

    def abandon(self) -> None:
        """Discard the changes, and close it."""

    def hold(self) -> None:
        """Keep it open until ``release``, even if others begin and end in between."""

    def release(self) -> None:
        """Write the changes into the store, and close it."""

    def sync(self) -> None:
        """Write the changes into the store while it is held, and load what others have written."""

    def pending(self) -> int:
        """The number of changed rows that are not in the store's columns yet."""

    def open_transactions(self) -> Sequence[object]:
        """The transactions of the processor that have not ended."""

    def commit(self, changelog_offsets: Mapping[Any, int]) -> None:
        """Commit the open transactions."""

    def roll_back_transactions(self) -> None:
        """Close the open transactions, which undoes their writes."""


class Views:
    """The record views of a processor, by the names of their stores."""

    def __init__(self, views: Mapping[str, RecordView], read_only: Mapping[str, RecordView]):
        self._views = [*views.values(), *read_only.values()]
        self.on_refused: Callable[[str, str], object] | None = None
        """Called when a store leaves out records because its retention has passed, with its name and its kind."""
        handed = {name: getattr(view, "handed", view) for name, view in views.items()}
        self.by_name: dict[str, Any] = {**handed, **{name: ReadOnly(name, view) for name, view in read_only.items()}}

    @classmethod
    def union(cls, several: Iterable[Views]) -> Views:
        """The views of several processors, each once."""
        united = cls({}, {})
        united._views = list({id(view): view for views in several for view in views._views}.values())
        return united

    @contextmanager
    def open(self, keys: Column | None) -> Iterator[None]:
        """Open the views while the processor works on a chunk. Its writes are kept unless the chunk fails.

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
        """Report to ``on_refused`` what the stores leave out."""
        for view in self._views if self.on_refused is not None else ():
            view.on_refused = self.on_refused  # type: ignore[assignment]

    def commit_transactions(self) -> None:
        """Commit what processors have left open, at the end of the task's commit."""
        views = [view for view in self._views if view.open_transactions()]
        if views:
            with self.open(None):
                for view in views:
                    view.commit({})

    def pending(self) -> int:
        """The number of rows that the processor has changed, and that are not in the stores' columns yet."""
        return sum(view.pending() for view in self._views)

    def abandon(self) -> None:
        for view in self._views:
            view.abandon()
            view.roll_back_transactions()


_WRITES = frozenset(("put", "put_all", "put_if_absent", "delete", "remove", "new_transaction"))


class ReadOnly:
    """A global store as processors see it: read-only, since only its topic writes it (``GlobalReadOnlyDecorator``)."""

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
