"""Rows of CSV. One with too few or too many cells is a record that does not decode, and says where it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import binary, nulls
from penstock.sources.cells import keys_of_text, objects_of_text
from penstock.sources.files.rows import BLOCK, Rows, column_of

_EMPTY = "Empty CSV file"
"""Arrow's words for CSV without rows."""


@dataclass(frozen=True)
class _Wrong:
    """A row with a wrong number of cells.

    Attributes:
        place: how many rows are before it.
        text: the value of its record, which is no JSON.
    """

    place: int
    text: str


class Csv(Rows):
    """Rows of text; places are numbers of rows, without empty lines.

    The fields of the values' type say which columns are numbers, times and truth values. All others are text.
    """

    def _begin(self) -> None:
        import pyarrow.csv as csv

        self._left: list[Any] = []
        self._wrong: deque[_Wrong] = deque()
        self._read = 0
        """How many rows Arrow has given, with the wrong ones among them."""
        self._batches: Iterator[Any] = iter(())
        names = self._wanted.columns or self._names()
        if not names:
            return
        self._names_rows = 0 if self._wanted.columns else 1
        read = csv.ReadOptions(
            column_names=list(names), skip_rows=self._names_rows, block_size=BLOCK, use_threads=False
        )
        text = dict.fromkeys(names, pa.string())
        convert = csv.ConvertOptions(column_types=text, strings_can_be_null=False, check_utf8=True)
        try:
            self._batches = csv.open_csv(self._file, read, self._parsing(self._note_wrong), convert)
        except pa.ArrowInvalid as error:
            if _EMPTY not in str(error):
                raise self._wanted.refused(error) from None

    def _parsing(self, note_wrong: Any = None) -> Any:
        import pyarrow.csv as csv

        return csv.ParseOptions(
            delimiter=self._wanted.delimiter, newlines_in_values=True, invalid_row_handler=note_wrong
        )

    def _note_wrong(self, row: Any) -> str:
        """Keep a row that Arrow leaves out."""
        what = f"row {row.number:,} has {row.actual_columns:,} cells in place of {row.expected_columns:,}"
        self._wrong.append(_Wrong(row.number - 1 - self._names_rows, f"{self._wanted.where}, {what}: {row.text}"))
        return "skip"

    def _names(self) -> list[str]:
        """Return the names in the first row; none for a file without any row."""
        import pyarrow.csv as csv

        try:
            with self._open() as file:
                first = csv.open_csv(file, parse_options=self._parsing(lambda row: "skip"))
                names: list[str] = first.schema.names
                first.close()
        except pa.ArrowInvalid as error:
            if _EMPTY in str(error):
                return []
            raise self._wanted.refused(error) from None
        if len(set(names)) < len(names) or "" in names:
            raise self._wanted.refused(f"its first row has the names of columns, each once; it has {', '.join(names)}")
        return names

    def read(self, most: int) -> tuple[Any, int] | None:
        while (batch := self._next()) is not None or self._wrong:
            if batch is not None and len(batch) > most:
                self._left.append(batch.slice(most))
                batch = batch.slice(0, most)
            wrong = self._wrong_within(len(batch or ()))
            begin, count = self._read, len(batch or ()) + len(wrong)
            if begin + count > self._at:  # rows before the place were read earlier
                table = self._records(batch, wrong).slice(max(0, self._at - begin))
                self._read = self._at = begin + count
                return table, self._at
            self._read += count
        return None

    def _next(self) -> Any:
        """Return some right rows, none of them if there are only wrong ones; None at the end of the file."""
        if self._left:
            return self._left.pop()
        try:
            return next((batch for batch in self._batches if len(batch) or self._wrong), None)
        except pa.ArrowInvalid as error:
            raise self._wanted.refused(error) from None

    def _wrong_within(self, right: int) -> list[_Wrong]:
        """Take the wrong rows that are before, among or directly behind so many right ones."""
        found: list[_Wrong] = []
        while self._wrong and self._wrong[0].place <= self._read + right + len(found):
            found.append(self._wrong.popleft())
        return found

    def _records(self, batch: Any, wrong: list[_Wrong]) -> Any:
        columns = {} if batch is None or not len(batch) else self._columns(batch)
        if not wrong:
            return pa.table(columns)
        texts = {"value": binary([one.text.encode() for one in wrong])}
        if self._wanted.key is not None:
            texts["key"] = nulls(len(wrong))
        if not columns:
            return pa.table(texts)
        count = len(batch) + len(wrong)
        is_wrong = np.zeros(count, bool)
        is_wrong[[one.place - self._read for one in wrong]] = True
        order = np.empty(count, np.int64)
        order[~is_wrong], order[is_wrong] = np.arange(len(batch)), np.arange(len(batch), count)
        both = {name: pa.concat_arrays([column, texts[name]]) for name, column in columns.items()}
        return pa.table({name: column.take(pa.array(order)) for name, column in both.items()})

    def _columns(self, batch: Any) -> dict[str, Any]:
        key, value = self._wanted.types
        columns = {}
        if self._wanted.key is not None:
            columns["key"] = keys_of_text(column_of(batch, self._wanted.key, self._wanted), key)
        return {**columns, "value": objects_of_text(batch, value, self._wanted.where)}
