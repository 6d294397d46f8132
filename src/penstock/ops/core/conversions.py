"""Rows whose columns do not decode or encode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.arrays import is_too_large
from penstock.columns.batch import Batch
from penstock.columns.column import Column
from penstock.errors import RegistryError

Errors = list[tuple[int, BaseException]]
"""The rows that fail, each with its error."""


def undecodable(column: Column) -> Errors:
    """The rows whose bytes do not decode."""
    return _failures(column, column.decoded, lambda: _errors(column.encoded().to_pylist(), column.serde.decode))


def unencodable(column: Column) -> Errors:
    """The rows whose values do not encode."""
    return _failures(
        column, column.encoded, lambda: _errors(column.decoded(), lambda value: column.serde.encode_all([value]))
    )


def without(batch: Batch, errors: Errors) -> Batch:
    """The batch without the rows that failed."""
    return batch.take(np.setdiff1d(np.arange(len(batch)), [row for row, _ in errors]))


def _failures(column: Column, convert: Callable[[], Any], errors: Callable[[], Errors]) -> Errors:
    """The rows of a column that fail; empty if the whole column converts."""
    try:
        convert()
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        if is_too_large(problem) or isinstance(problem, RegistryError):
            raise
        # if no row fails by itself, the column as a whole does, which none of our serdes causes
        return errors() or [(row, problem) for row in range(len(column))]
    return []


def _errors(values: list[Any], convert: Callable[[Any], Any]) -> Errors:
    errors: Errors = []
    for row, value in enumerate(values):
        try:
            if value is not None:
                convert(value)
        except (KeyboardInterrupt, RegistryError):
            raise
        except BaseException as error:
            errors.append((row, error))
    return errors
