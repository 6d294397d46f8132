"""The messages between the tables of a foreign-key join: subscriptions there, responses back.

Both travel as changes of a table, with the old value reused. A subscription has the foreign key as key, the left value
as new value, and the instruction with the primary key as old value. A response has the primary key as key, the right
value as new value, and the left value as old value. Left values carry the serial number of their change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import (
    Binary,
    BoolArray,
    IntArray,
    first_numbers,
    fixed_binary,
    is_missing,
    spans,
    without_first,
)
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn
from penstock.columns.rows import Rows
from penstock.serdes import BYTES, Serde

_BITS, _IS_NULL, _OVERTAKES, _SUPERSEDED = 2, 1, 2, -1
_MARK = 0x80


class Instruction(IntEnum):
    """The instruction of a subscription; the first four are those of Kafka Streams' ``SubscriptionWrapper``."""

    DELETE_KEY_NO_PROPAGATE = 0
    """Forget the subscription, and send nothing."""
    DELETE_KEY_AND_PROPAGATE = 1
    """Forget the subscription, and respond with null."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Subscribe, and respond with the right value, or with null."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Subscribe, and respond with the right value if there is one."""
    SUPERSEDE = 4
    """Keep the subscription, if any, but mark its row as replaced: responses to it are too late."""


@dataclass(frozen=True, slots=True)
class LeftValues(Rows):
    """Values of the left table, with facts about the changes that made them."""

    value: Binary
    serial: IntArray
    """Grows with every change of the left table; 0 if the change is superseded."""
    superseded: BoolArray
    """True for changes that the same record replaces with others: responses to them are too late."""
    overtakes: BoolArray
    """True if the response may arrive before a response to an earlier change of the same key."""

    @classmethod
    def of(cls, value: Binary, serial: IntArray, superseded: BoolArray) -> LeftValues:
        """Values whose responses overtake no others."""
        return cls(value, serial, superseded, np.zeros(len(serial), np.bool_))

    @classmethod
    def unpacked(cls, data: Binary) -> LeftValues:
        """The inverse of ``packed``.

        >>> no, yes = np.array([False, False]), np.array([True, True])
        >>> values = LeftValues(pa.array([b"row", None], pa.binary()), np.array([7, 8]), no, yes)
        >>> found = LeftValues.unpacked(values.packed())
        >>> found.value.to_pylist(), found.serial.tolist(), found.superseded.tolist(), found.overtakes.tolist()
        ([b'row', None], [7, 8], [False, False], [True, True])
        """
        number, value = first_numbers(data), without_first(data, 8)
        is_null = number & _IS_NULL != 0
        if is_null.any():
            value = pc.if_else(pa.array(~is_null), value, pa.scalar(None, pa.binary()))
        serial = number >> _BITS
        return cls(value, np.maximum(serial, 0), serial == _SUPERSEDED, number & _OVERTAKES != 0)

    def packed(self) -> Binary:
        """Pack each value and its facts into bytes, the form in which they are sent and stored."""
        flags = np.where(is_missing(self.value), _IS_NULL, 0) | np.where(self.overtakes, _OVERTAKES, 0)
        number = (np.where(self.superseded, _SUPERSEDED, self.serial) << _BITS) | flags
        return pc.binary_join_element_wise(fixed_binary(number.astype(">i8")), self.value.fill_null(b""), b"")


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Messages to the right table (Kafka Streams' ``SubscriptionWrapper``)."""

    foreign_key: Binary
    """Null for rows that have no foreign key."""
    primary_key: Binary
    instruction: IntArray
    overtakes: BoolArray
    """True if the response may arrive before a response to an earlier change of the same key."""
    left: Binary
    """Packed ``LeftValues``: the right table's side only passes them on."""

    @classmethod
    def of(cls, batch: Batch) -> Subscriptions:
        """Read the messages from the changes that carry them."""
        assert isinstance(batch, Changes)
        assert batch.old is not None
        said = batch.old.encoded()
        where = spans(said)
        marked = where.data[where.start].astype(np.int64)
        instruction, overtakes = marked & ~_MARK, marked & _MARK != 0
        return cls(batch.key.encoded(), without_first(said, 1), instruction, overtakes, batch.value.encoded())

    def as_changes(self, rows: Batch, foreign_key: Serde, within: IntArray | int) -> Changes:
        """Turn the messages into changes, caused by rows of the left table; ``within`` orders the messages of one
        row."""
        marked = self.instruction | np.where(self.overtakes, _MARK, 0)
        said = fixed_binary(marked.astype(np.uint8).reshape(-1, 1))
        return Changes(
            BytesColumn(self.foreign_key, foreign_key),
            BytesColumn(self.left, BYTES),
            rows.timestamp,
            (*rows.order, within),
            rows.headers,
            old=BytesColumn(pc.binary_join_element_wise(said, self.primary_key, b""), BYTES),
        )


@dataclass(frozen=True, slots=True)
class Responses:
    """Messages back to the left table (Kafka Streams' ``SubscriptionResponseWrapper``)."""

    primary_key: Binary
    foreign_value: Binary
    """Null if the right table has no value."""
    left: Binary
    """``LeftValues``, packed."""

    @classmethod
    def of(cls, batch: Batch) -> Responses:
        """Read the messages from the changes that carry them."""
        assert isinstance(batch, Changes)
        assert batch.old is not None
        return cls(batch.key.encoded(), batch.value.encoded(), batch.old.encoded())

    def as_changes(self, caused: Batch, primary_key: Serde) -> Changes:
        """Turn the messages into changes, with the times, headers and places of the records that caused them."""
        key, value = BytesColumn(self.primary_key, primary_key), BytesColumn(self.foreign_value, BYTES)
        return Changes(key, value, caused.timestamp, caused.order, caused.headers, old=BytesColumn(self.left, BYTES))
