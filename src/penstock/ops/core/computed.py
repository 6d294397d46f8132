"""Expressions on whole columns; they give what they give record by record, or leave that to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.arrays import BoolArray, null_mask
from penstock.columns.column import BytesColumn, Column, NumberColumn, ValuesColumn
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import AnyPart, Part, TextPart
from penstock.columns.scanned import Fields
from penstock.ops.core.unfit import Unfit
from penstock.plan.expressions.expression import (
    CALCULATIONS,
    COMPARISONS,
    Expression,
    Literal,
    Operation,
)
from penstock.plan.expressions.expression import Column as Field
from penstock.plan.expressions.typed import Construction, Evaluation
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.primitives import NumberSerde

_EXACT = 2**53
"""Below this each whole number is a float."""
_SAFE = 2.0**62
"""Below this no result is near the end of 64 bits, however it is rounded."""
_COMPARED = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


@dataclass(frozen=True)
class Cells:
    """An expression for each record.

    Attributes:
        values: numbers or truths, or an Arrow array of text.
        present: where it is not None; None for everywhere.
        odd: the records for which the rules record by record have to tell; None for no record.
    """

    values: Any
    present: BoolArray | None = None
    odd: BoolArray | None = None

    @property
    def is_text(self) -> bool:
        return isinstance(self.values, pa.Array)

    @property
    def absent(self) -> BoolArray | None:
        return None if self.present is None else ~self.present


def _any(*masks: BoolArray | None) -> BoolArray | None:
    found = [mask for mask in masks if mask is not None]
    return None if not found else np.logical_or.reduce(found)


class FieldsOfValues:
    """The fields of the values of a batch."""

    def __init__(self, values: Column):
        self.count = len(values)
        self._fields: dict[str, AnyPart] | Fields | None = None
        if isinstance(values, BytesColumn):
            self._fields = values.fields()
        elif isinstance(values, FieldsColumn):
            fields = values.serde.written_fields
            if fields is not None:
                self._fields = dict(zip([one.name for one in fields], values.parts, strict=True))
        self._missing = values.null_mask() if self._fields is not None else None

    def cells(self, field: Field) -> Cells:
        if self._fields is None or len(field.path) != 1:
            raise Unfit
        (name,) = field.path
        if isinstance(self._fields, Fields):
            part: AnyPart = self._fields.text(name) or self._fields.part(name)
        else:
            part = self._fields[name]
        if isinstance(part, TextPart):
            absent = null_mask(part.values)
            return Cells(part.values, None if absent is None else ~absent, self._missing)
        if part.values.dtype == object:
            raise Unfit
        return Cells(part.values, part.present, self._missing)


def computed(expression: Expression, rows: FieldsOfValues) -> Cells:
    """Return an expression for each record.

    Raises:
        Unfit: the values go record by record.
    """
    if isinstance(expression, Field):
        return rows.cells(expression)
    if isinstance(expression, Literal):
        return _repeated(expression.value, rows.count)
    assert isinstance(expression, Operation)
    if expression.sign in ("&", "|"):
        return _joined(expression, rows)
    cells = [computed(one, rows) for one in expression.operands]
    if expression.sign == "~":
        truth = _truth(cells[0])
        return Cells(~truth, None, cells[0].odd)
    if expression.sign in ("is_none", "is_not_none"):
        there = np.ones(rows.count, np.bool_) if cells[0].present is None else cells[0].present
        return Cells(there if expression.sign == "is_not_none" else ~there, None, cells[0].odd)
    if expression.sign == "or_else":
        return _or_else(*cells)
    with np.errstate(all="ignore"):
        return (_compared if expression.sign in COMPARISONS else _calculated)(expression.sign, *cells)


def _repeated(value: Any, count: int) -> Cells:
    if type(value) is str:
        try:
            return Cells(pa.repeat(pa.scalar(value, pa.string()), count))
        except UnicodeEncodeError:  # half of a surrogate pair
            raise Unfit from None
    if type(value) not in (bool, int, float):
        raise Unfit
    try:
        return Cells(np.full(count, value, np.dtype(type(value)) if type(value) is not int else np.int64))
    except OverflowError:
        raise Unfit from None


def _truth(cells: Cells) -> Any:
    if cells.is_text or cells.values.dtype != np.bool_:
        raise Unfit
    return cells.values if cells.present is None else cells.values & cells.present


def _joined(expression: Operation, rows: FieldsOfValues) -> Cells:
    """Both or one of two conditions; the second counts where the first has not decided."""
    left, right = (computed(one, rows) for one in expression.operands)
    first, second = _truth(left), _truth(right)
    is_and = expression.sign == "&"
    decided = ~first if is_and else first
    later = None if right.odd is None else right.odd & ~decided
    return Cells(first & second if is_and else first | second, None, _any(left.odd, later))


def _or_else(left: Cells, right: Cells) -> Cells:
    if left.is_text != right.is_text or (not left.is_text and left.values.dtype != right.values.dtype):
        raise Unfit
    if left.present is None:
        return left
    later = None if right.odd is None else right.odd & ~left.present
    odd = _any(left.odd, later)
    if left.is_text:
        values = pc.if_else(pa.array(left.present), left.values, right.values)
        absent = null_mask(values)
        return Cells(values, None if absent is None else ~absent, odd)
    present = None if right.present is None else left.present | right.present
    return Cells(np.where(left.present, left.values, right.values), present, odd)


def _compared(sign: str, left: Cells, right: Cells) -> Cells:
    odd = _any(left.odd, right.odd, left.absent, right.absent)
    if left.is_text != right.is_text:
        raise Unfit
    if sign in ("==", "!=") and (left.present is not None or right.present is not None):
        return _same(sign, left, right)
    if left.is_text:
        found = getattr(pc, _COMPARED[sign])(left.values, right.values).fill_null(False)
        return Cells(found.to_numpy(zero_copy_only=False), None, odd)
    one, other = left.values, right.values
    if (one.dtype == np.bool_) != (other.dtype == np.bool_):
        raise Unfit
    if one.dtype != other.dtype:  # as floats two whole numbers may be the same that are not
        odd = _any(odd, *(_large(each) for each in (one, other) if each.dtype == np.int64))
    return Cells(COMPARISONS[sign](one, other), None, odd)


def _same(sign: str, left: Cells, right: Cells) -> Cells:
    """Two values where one may be None, which is the same as None alone."""
    every = np.ones(len(left.values), np.bool_)
    one, other = (every if each.present is None else each.present for each in (left, right))
    found = _compared("==", Cells(left.values, None, left.odd), Cells(right.values, None, right.odd))
    same = np.where(one & other, found.values, one == other)
    return Cells(same if sign == "==" else ~same, None, found.odd)


def _large(numbers: NDArray[Any]) -> BoolArray | None:
    found: BoolArray = (numbers >= _EXACT) | (numbers <= -_EXACT)
    return found if found.any() else None


def _calculated(sign: str, left: Cells, right: Cells) -> Cells:
    odd = _any(left.odd, right.odd, left.absent, right.absent)
    if left.is_text and right.is_text and sign == "+":
        return Cells(pc.binary_join_element_wise(left.values, right.values, ""), None, odd)
    if left.is_text or right.is_text or np.bool_ in (left.values.dtype, right.values.dtype):
        raise Unfit
    one, other = left.values, right.values
    are_whole = one.dtype == np.int64 and other.dtype == np.int64
    if sign in ("//", "%"):
        if not are_whole:
            raise Unfit
        wrong = (other == 0) | (one < -_SAFE)
        return Cells(CALCULATIONS[sign](one, np.where(other == 0, 1, other)), None, _any(odd, wrong))
    if sign == "/":
        wrong = [other == 0, *(_large(each) for each in (one, other) if each.dtype == np.int64)]
        return Cells(one / np.where(other == 0, 1, other), None, _any(odd, *wrong))
    if are_whole:
        near = np.abs(CALCULATIONS[sign](one.astype(np.float64), other.astype(np.float64))) >= _SAFE
        odd = _any(odd, near if near.any() else None)
    return Cells(CALCULATIONS[sign](one, other), None, odd)


def computed_truth(call: Evaluation, values: Column) -> tuple[BoolArray, BoolArray | None] | None:
    """Return for which records a condition is true, and the odd ones, about which the rules of one record decide; None
    if it is for all."""
    if not call.is_flat:
        return None
    try:
        cells = computed(call.expression, FieldsOfValues(values))
        return _truth(cells), cells.odd if cells.odd is not None and cells.odd.any() else None
    except Unfit:
        return None


def computed_column(call: Evaluation | Construction, values: Column, serde: Serde) -> Column | None:
    """Return the results as a column; None if they go record by record."""
    if not call.is_flat or not len(values):
        return None
    try:
        rows = FieldsOfValues(values)
        if isinstance(call, Construction):
            return _objects(call, rows, serde)
        return _plain(_whole(computed(call.expression, rows)), serde)
    except Unfit:
        return None


def _whole(cells: Cells) -> Cells:
    if cells.odd is not None and cells.odd.any():
        raise Unfit
    return cells


def _plain(cells: Cells, serde: Serde) -> Column | None:
    if cells.is_text:
        return BytesColumn(cells.values.cast(pa.binary()), serde) if serde.name == "str" else None
    if isinstance(serde, NumberSerde) and cells.values.dtype == serde.native:
        return NumberColumn(cells.values, serde, cells.present)
    return ValuesColumn(Part(cells.values, cells.present).listed(), serde)


def _objects(call: Construction, rows: FieldsOfValues, serde: Serde) -> Column | None:
    fields = serde.written_fields if isinstance(serde, JsonSerde) and serde.type is call.cls else None
    given = dict(call.fields)
    if fields is None or any(field.name not in given for field in fields):
        return None
    parts: list[AnyPart] = []
    for field in fields:
        cells = _whole(computed(given[field.name], rows))
        if cells.present is not None and not field.takes_none and not cells.present.all():
            return None
        kind = pa.string() if cells.is_text else pa.from_numpy_dtype(cells.values.dtype)
        if kind != field.column and not (kind == pa.int64() and field.column == pa.float64()):
            return None
        parts.append(TextPart(cells.values) if cells.is_text else Part(cells.values, cells.present))
    return FieldsColumn(tuple(parts), serde)  # type: ignore[arg-type]
