"""Columns that may not decode or encode: the records concerned have failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.arrays import is_too_large
from penstock.batch import Batch
from penstock.columns import BytesColumn, Column
from penstock.errors import RegistryError
from penstock.handlers import DESERIALIZATION, PROCESSING
from penstock.ops.core.failures import misfit, way_out_of_reading

if TYPE_CHECKING:
    from penstock.ops.core.context import Context


def read(context: Context, node: str, batch: Batch, *names: str) -> Batch:
    """The batch as Kafka Streams' deserializers give it: null where bytes decode to None, and without the records whose
    columns do not decode. Columns that nobody looks into are decoded only where that may give None.

    Args:
        names: the columns that somebody looks into.
    """
    for name in ("key", "value", "old"):
        column = getattr(batch, name, None)
        if not isinstance(column, BytesColumn):
            continue
        if column.serde.gives_none:
            batch = decoded(context, node, batch, name)
            column = getattr(batch, name)
        found = column.read()
        if found is not column:
            batch = batch.with_key(found) if name == "key" else replace(batch, **{name: found})  # type: ignore[arg-type]
    return decoded(context, node, batch, *names)


def decoded(context: Context, node: str, batch: Batch, *names: str) -> Batch:
    """The batch without the records whose columns do not decode."""
    for name in names:
        column = getattr(batch, name, None)
        if column is None or (errors := _failures(column, column.decoded, _undecodable)) is None:
            continue
        for row, error in errors:
            position = int(batch.position[row])
            source = context.facts.known.types.get(context.facts.origin(position).topic)
            way_out = way_out_of_reading(name, column.serde, source)
            context.failed(node, position, error, way_out=way_out, kind=DESERIALIZATION)
        batch = _without(batch, errors)
    return batch


def encoded(context: Context, node: str, batch: Batch, *names: str, kind: str = PROCESSING) -> Batch:
    """The batch without the records whose columns do not encode."""
    for name in names:
        column = getattr(batch, name, None)
        if column is None or (errors := _failures(column, column.encoded, _unencodable)) is None:
            continue
        for row, error in errors:
            maker = context.facts.known.maker(node, name)
            problem, way_out = misfit(name, column.serde, error, maker)
            function = None if maker is None else maker.function
            context.failed(node, int(batch.position[row]), problem, function, way_out, kind)
        batch = _without(batch, errors)
    return batch


Errors = list[tuple[int, BaseException]]
"""The rows that fail, and why."""


def _failures(column: Column, convert: Callable[[], Any], errors_of: Callable[[Column], Errors]) -> Errors | None:
    """The rows of a column that fail; None when the whole column converts."""
    try:
        convert()
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        if is_too_large(problem) or isinstance(problem, RegistryError):
            raise
        # if no row fails it is the column as a whole that does, which no serde of ours does
        return errors_of(column) or [(row, problem) for row in range(len(column))]
    return None


def _without(batch: Batch, errors: Errors) -> Batch:
    return batch.take(np.setdiff1d(np.arange(len(batch)), [row for row, _ in errors]))


def _undecodable(column: Column) -> Errors:
    return _errors(column.encoded().to_pylist(), column.serde.decode)


def _unencodable(column: Column) -> Errors:
    return _errors(column.decoded(), lambda value: column.serde.encode_all([value]))


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
