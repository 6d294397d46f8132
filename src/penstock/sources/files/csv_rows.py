"""Rows of CSV. A row with too few or too many cells, or with bytes that are no text, is a record that does not decode.
Its value says where it was."""

from __future__ import annotations

import csv as python_csv
import io
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import binary, nulls
from penstock.sources.cells import keys_of_text, objects_of_text
from penstock.sources.files.rows import BLOCK, Rows, column_of
from penstock.sources.files.texts import MARK, Utf8, shown

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

    def _open(self) -> Any:
        return Utf8(super()._open(), self._wanted.encoding, has_marks=True)

    def _begin(self) -> None:
        import pyarrow.csv as csv

        self._left: list[Any] = []
        self._wrong: deque[_Wrong] = deque()
        self._read = 0
        """How many rows Arrow has given, with the wrong ones among them."""
        self._batches: Iterator[Any] = iter(())
        self._unnamed = ""
        """Why no row has names for its cells; empty if they have."""
        names = self._wanted.columns or self._names()
        if not names:
            return
        self._names_rows = 0 if self._wanted.columns else 1
        read = csv.ReadOptions(
            column_names=list(names), skip_rows=self._names_rows, block_size=BLOCK, use_threads=False
        )
        text = dict.fromkeys(names, pa.string())
        convert = csv.ConvertOptions(column_types=text, strings_can_be_null=False, check_utf8=False)
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
        text = f"{self._wanted.where}, {what}: {shown(row.text)}"
        self._wrong.append(_Wrong(row.number - 1 - self._names_rows, text))
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
        if MARK in "".join(names):
            self._unnamed = f"has no names, because row 1 is not in the encoding {self._wanted.encoding}"
            return [str(number) for number in range(len(names))]
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
        if columns and (self._unnamed or self._file.is_marked):
            columns = self._without_broken(columns, batch, wrong)
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

    def _without_broken(self, columns: dict[str, Any], batch: Any, wrong: list[_Wrong]) -> dict[str, Any]:
        """Replace the records of rows with bytes that are no text."""
        is_broken = np.full(len(batch), bool(self._unnamed))
        for column in batch.columns:
            is_broken |= pc.match_substring(column, MARK).to_numpy(zero_copy_only=False)
        if not is_broken.any():
            return columns
        taken = {one.place for one in wrong}
        places = [place for place in range(self._read, self._read + len(batch) + len(wrong)) if place not in taken]
        delimiter = self._wanted.delimiter
        why = self._unnamed or f"is not in the encoding {self._wanted.encoding}"
        texts = [
            f"{self._wanted.where}, row {places[at] + 1 + self._names_rows:,} {why}: {_text_of(batch, at, delimiter)}"
            for at in np.flatnonzero(is_broken).tolist()
        ]
        mask = pa.array(is_broken)
        found = {
            **columns,
            "value": pc.replace_with_mask(columns["value"], mask, binary([text.encode() for text in texts])),
        }
        if "key" in columns:
            found["key"] = pc.if_else(mask, pa.scalar(None, pa.binary()), columns["key"])
        return found

    def _columns(self, batch: Any) -> dict[str, Any]:
        key, value = self._wanted.types
        columns = {}
        if self._wanted.key is not None and not self._unnamed:
            columns["key"] = keys_of_text(column_of(batch, self._wanted.key, self._wanted), key)
        return {**columns, "value": objects_of_text(batch, value, self._wanted.where)}


def _text_of(batch: Any, at: int, delimiter: str) -> str:
    """Return a row as it is written in CSV."""
    text = io.StringIO()
    python_csv.writer(text, delimiter=delimiter).writerow([column[at].as_py() for column in batch.columns])
    return shown(text.getvalue().removesuffix("\r\n"))
