"""The rules of aggregates by name on whole columns; they give what the rules record by record give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property, singledispatch
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray
from penstock.columns.part import Part
from penstock.ops.core.groups import Groups
from penstock.ops.core.running import running
from penstock.ops.core.unfit import Unfit
from penstock.plan.aggregates.approximate import Sketching
from penstock.plan.aggregates.folding import Averaging, Choosing, Counting, Folding, Keeping, Summing

_SAFE_SUM = 2.0**62
"""Below this no sum of whole numbers is near the end of 64 bits, however it is rounded."""
EXACT = 2**53
"""Below this each whole number is a float."""
_PLAIN = frozenset((str, int, bool))
"""Values that come back from bytes as they are."""


@dataclass(frozen=True)
class Given:
    """Input of an aggregate for a chunk of rows."""

    groups: Groups
    existed: BoolArray
    """Whether each group had an aggregate."""
    base: list[Part]
    """The cells of each group before the rows, by cell; without a value where there was none."""
    read: Callable[[], list[Any]]
    """Returns the value of each row, in the order of the rows."""
    numbers: Part | None
    """The same, if all of them are numbers of the field's type, or None."""
    trusted: bool
    """Whether the values are known to have their type, as they were read from bytes."""

    @cached_property
    def values(self) -> list[Any]:
        return self.read() if self.numbers is None else self.numbers.listed()

    @property
    def kinds(self) -> set[type]:
        """The types of the values, without None."""
        return kinds_of(Part(objects(self.values)) if self.numbers is None else self.numbers)

    @property
    def there(self) -> BoolArray:
        """The rows that have a value."""
        if self.numbers is not None:
            return _there(self.numbers)
        return np.array([one is not None for one in self.values], np.bool_)


@singledispatch
def computed(folding: Folding, given: Given) -> tuple[Part, ...]:
    """Return the cells after each row, in the groups' order.

    Raises:
        Unfit: the values go record by record.
    """
    raise Unfit


def is_computed(folding: Folding) -> bool:
    """Return whether columns can have an aggregate at all."""
    return computed.dispatch(type(folding)) is not computed.dispatch(object)


@computed.register
def _(folding: Counting, given: Given) -> tuple[Part, ...]:
    there = None if folding.every else given.there[given.groups.order]
    return (Part(_counted(given.groups, given.base[0], there)),)


@computed.register
def _(folding: Summing, given: Given) -> tuple[Part, ...]:
    base, values = both(folding, given, given.base[0])
    return (summed(given.groups, base, values),)


@computed.register
def _(folding: Averaging, given: Given) -> tuple[Part, ...]:
    base, values = both(folding, given, given.base[1])
    total = summed(given.groups, base, values)
    count = _counted(given.groups, given.base[2], values.present)
    if total.values.dtype == np.int64 and len(count) and np.abs(total.values).max() >= EXACT:
        raise Unfit
    with np.errstate(all="ignore"):
        mean = total.values / np.maximum(count, 1)
    return Part(mean, count > 0), total, Part(count)


@computed.register
def _(folding: Choosing, given: Given) -> tuple[Part, ...]:
    kinds = given.kinds | kinds_of(given.base[0])
    if kinds & {str, date}:
        return (_chosen_of_ranks(folding, given, kinds),)
    base, values = both(folding, given, given.base[0])
    every = np.concatenate([base.values, values.values])
    if every.dtype == np.float64 and np.signbit(every[every == 0]).any():
        raise Unfit  # -0.0 and 0.0 are equal, and the first of them stays
    return (_chosen(given.groups, folding.largest, base, values),)


@computed.register
def _(folding: Keeping, given: Given) -> tuple[Part, ...]:
    _check(folding, given, given.kinds)
    groups = given.groups
    values = objects(given.values)[groups.order]
    if folding.last:
        return (Part(values),)
    first = np.where(given.existed, objects(given.base[0].listed()), values[groups.starts])
    return (Part(first[groups.group]),)


@computed.register
def _(folding: Sketching, given: Given) -> tuple[Part, ...]:
    results, sketches, cells, last = [], [], folding.start, -1
    starts = zip(given.existed.tolist(), *(part.listed() for part in given.base), strict=True)
    values = given.values
    for group, row in zip(given.groups.group.tolist(), given.groups.order.tolist(), strict=True):
        if group != last:
            existed, *before = next(starts)
            cells, last = tuple(before) if existed else folding.start, group
        result, sketch = folding.add(cells, values[row])
        cells = result, cells[1] if sketch == cells[1] else sketch  # equal ones are kept once
        results.append(result)
        sketches.append(cells[1])
    return numbers_of(results, np.dtype(folding.result)), Part(objects(sketches))


def objects(values: list[Any]) -> NDArray[Any]:
    """Return values as an array of objects."""
    return np.fromiter(values, object, len(values))


def _check(folding: Folding, given: Given, kinds: set[type]) -> None:
    """Refuse values that may not come back from bytes as they are."""
    _check_writable(given.values, kinds)
    if given.trusted and folding.type is not Any:
        return
    if not kinds <= _PLAIN or (folding.type is not Any and kinds - {folding.type}):
        raise Unfit


def _check_writable(values: list[Any], kinds: set[type]) -> None:
    """Refuse texts and numbers that JSON cannot write: their records fail by themselves."""
    if int in kinds:
        numbers_of([one if type(one) is int else 0 for one in values], np.dtype(np.int64))
    if str in kinds:
        "".join(one for one in values if type(one) is str).encode()


def kinds_of(part: Part) -> set[type]:
    """Return the types of a field's values, without None."""
    if part.values.dtype == object:
        return set(map(type, part.listed())) - {NoneType}
    return {type(part.values.dtype.type(0).item())}


def whole(part: Part) -> IntArray:
    """Return whole numbers, and 0 where the field has no value."""
    if part.values.dtype == np.int64:
        return part.values if part.present is None else np.where(part.present, part.values, 0)
    return np.array([one or 0 for one in part.listed()], np.int64)


def _counted(groups: Groups, base: Part, there: BoolArray | None) -> IntArray:
    """Return how many rows there have been up to each; None counts all of them."""
    more = groups.running_count() if there is None else groups.running_sum(there.astype(np.int64))
    count: IntArray = whole(base)[groups.group] + more
    return count


def both(folding: Folding, given: Given, base: Part) -> tuple[Part, Part]:
    """Return the numbers of the groups, and those of the rows in the groups' order, of one type."""
    kinds = kinds_of(base) | given.kinds
    if not (kinds <= {int} or kinds <= {float}):
        raise Unfit
    if folding.type in (int, float) and kinds - {folding.type}:
        raise Unfit
    dtype = np.dtype(np.float64 if float in kinds else np.int64)
    numbers = numbers_of(given.values, dtype) if given.numbers is None else given.numbers
    values = numbers.take(given.groups.order)
    before = base if base.values.dtype == dtype else numbers_of(base.listed(), dtype)
    if folding.type is Any and not np.isfinite(values.values).all():
        raise Unfit
    return before, values


def numbers_of(values: list[Any], dtype: np.dtype[Any]) -> Part:
    """Return numbers of one type, some of which may be None.

    Raises:
        Unfit: one needs more than 64 bits.
    """
    present = None
    if None in values:
        present = np.array([one is not None for one in values], np.bool_)
        values = [0 if one is None else one for one in values]
    try:
        return Part(np.array(values, dtype), present)
    except OverflowError:
        raise Unfit from None


def _there(part: Part) -> BoolArray:
    return np.ones(len(part.values), np.bool_) if part.present is None else part.present


def _since(groups: Groups, base: Part, values: Part) -> BoolArray | None:
    """Return where a group has had a value, up to each row."""
    if base.present is None or values.present is None:
        return None if values.present is None else _there(base)[groups.group]
    had: BoolArray = base.present[groups.group] | (groups.running_sum(values.present.astype(np.int64)) > 0)
    return None if had.all() else had


def summed(groups: Groups, base: Part, values: Part) -> Part:
    present = _since(groups, base, values)
    if values.values.dtype == np.int64:
        sums = np.add.reduceat(np.abs(values.values.astype(np.float64)), groups.starts)
        if (np.abs(base.values.astype(np.float64)) + sums).max() > _SAFE_SUM:
            raise Unfit
        return Part(base.values[groups.group] + groups.running_sum(values.values), present)
    nothing = -0.0  # what changes no float
    start = np.where(_there(base), base.values, nothing)
    with np.errstate(all="ignore"):
        return Part(running(groups, start, np.where(_there(values), values.values, nothing), np.add), present)


def _chosen(groups: Groups, largest: bool, base: Part, values: Part) -> Part:
    """Return the least or the largest number so far; NaN is larger than all others."""
    is_float = values.values.dtype == np.float64
    step: np.ufunc
    if largest:
        step, nothing = np.maximum, -np.inf if is_float else np.iinfo(np.int64).min
    else:
        step, nothing = (np.fmin, np.nan) if is_float else (np.minimum, np.iinfo(np.int64).max)
    start = np.where(_there(base), base.values, nothing)
    chosen = running(groups, start, np.where(_there(values), values.values, nothing), step)
    return Part(chosen, _since(groups, base, values))


def _chosen_of_ranks(folding: Choosing, given: Given, kinds: set[type]) -> Part:
    """Return the first or last text or date so far, by their ranks among all of them."""
    if len(kinds) > 1 or (folding.type is not Any and kinds != {folding.type}):
        raise Unfit
    _check_writable(given.values, kinds)
    base_values = given.base[0].listed()
    ranked = sorted({*given.values, *base_values} - {None})
    rank = {value: number for number, value in enumerate(ranked)}
    rank[None] = None  # type: ignore[assignment]
    integer = np.dtype(np.int64)
    base = numbers_of([rank[one] for one in base_values], integer)
    values = numbers_of([rank[one] for one in given.values], integer).take(given.groups.order)
    chosen = _chosen(given.groups, folding.largest, base, values)
    there = _there(chosen)
    return Part(objects(ranked)[np.where(there, chosen.values, 0)], chosen.present)
