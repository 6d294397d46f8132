"""Views of versioned stores (KIP-889, KIP-960, KIP-968)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Any

from penstock.query.answers import Answers
from penstock.query.arrow import TableShape
from penstock.query.dicts import ALL_ROWS, Choice, row
from penstock.query.typed import MultiVersionedKeyQuery, VersionedKeyQuery
from penstock.query.versions import Version
from penstock.query.view import View
from penstock.state.kinds.versioned.store import VersionRow
from penstock.state.shapes import VersionedRecord
from penstock.values.durations import MAX_MS
from penstock.values.times import Time, bound

_TABLE = TableShape(("key",), ("value", "valid_from", "valid_to"))


class VersionedView(View):
    """A versioned store, read only (KIP-889, KIP-960, KIP-968)."""

    def get(self, key: Any, as_of: Time | None = None) -> Any:
        """The latest value of a key, or the one that was valid at a time, or None."""
        found = self.get_version(key, as_of)
        return None if found is None else found.value

    def get_version(self, key: Any, as_of: Time | None = None) -> VersionedRecord[Any] | None:
        """The value that a key had at a time, by default the latest, with the times from and to which it is valid."""
        data, time = self._key.encode_to_bytes(key), None if as_of is None else bound(as_of)
        row = self._first(lambda store: store.get_one(data, time))
        return None if row is None else self._record(row)

    def versions(
        self, key: Any, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[VersionedRecord[Any]]:
        """The versions of a key that were valid in a range of time, ends included, in order of time or backwards."""
        data, first, last = self._key.encode_to_bytes(key), bound(earliest), bound(latest)
        rows = self._in_turn(lambda store: store.versions(data, first, last, reverse))
        return (self._record(row) for row in rows)

    def history(self, key: Any, earliest: Time = 0, latest: Time = MAX_MS) -> Iterator[VersionedRecord[Any]]:
        """The versions that ``versions`` returns, the oldest first."""
        return self.versions(key, earliest, latest)

    def backward_history(self, key: Any, earliest: Time = 0, latest: Time = MAX_MS) -> Iterator[VersionedRecord[Any]]:
        """The versions that ``versions`` returns, the latest first."""
        return self.versions(key, earliest, latest, reverse=True)

    def all(self) -> Iterator[tuple[Any, Any, int, int | None]]:
        """Key, value, and the times from and to which it is valid, of all versions."""
        return self._decoded(self._now())

    def approximate_num_entries(self) -> int:
        """The number of versions."""
        return sum(1 for store in self._stores for _ in store.rows())

    def _dicts(self, choice: Choice = ALL_ROWS) -> Iterator[dict[str, Any]]:
        self._refuse_prefix(choice)
        if choice.key is None:
            rows = (row(key, value, valid_from=begin, valid_to=end) for key, value, begin, end in self.all())
        else:
            found = self.history(choice.key)
            rows = (row(choice.key, one.value, valid_from=one.timestamp, valid_to=one.valid_to) for one in found)
        return choice.filtered(rows, self._key)

    def _answers(self) -> Answers:
        return {
            VersionedKeyQuery: lambda query: self.get_version(query.key, query.time),
            MultiVersionedKeyQuery: lambda query: self.versions(
                query.key, query.earliest, query.latest, reverse=not query.ascending
            ),
        }

    def _decoded(self, version: Version) -> Iterator[tuple[Any, Any, int, int | None]]:
        rows = merge(*(store.rows() for store in version.stores), key=itemgetter(0, 2))
        for key, value, valid_from, valid_to in rows:
            yield self._key.decode(key), self._value.decode(value), valid_from, valid_to

    def _record(self, row: VersionRow) -> VersionedRecord[Any]:
        return VersionedRecord(self._value.decode(row.value), row.valid_from, row.valid_to)

    def _table_shape(self) -> TableShape:
        return _TABLE.of(self._key, self._value)

    def _raw_rows(self, version: Version) -> Iterator[tuple[Any, ...]]:
        for store in version.stores:
            for key, value, valid_from, valid_to in store.rows():
                yield key, valid_from, valid_to, value
