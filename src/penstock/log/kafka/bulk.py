"""Reads and writes messages in bulk, directly in librdkafka's memory, without a Python object for each.

The client of confluent-kafka makes an object of every message, which costs five times librdkafka's own work. This
module calls librdkafka through the library that the client has loaded, and a compiled loop copies keys and values into
columns, or passes them on. One thing is assumed of the client: where its handle of librdkafka is. That was verified for
the versions named below. With any other version, or without Numba, messages go one by one.

Only the partition's own queue is read like this: callbacks are in the consumer's queue, which the client has to serve.
Only transactions are written like this: the client does not report single messages that did not arrive, and in a
transaction that fails the whole transaction.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, cimpl

from penstock.arrays import MOST_BYTES, Binary, BoolArray, IntArray, is_missing, spans, too_large
from penstock.columns.compiled import compiled
from penstock.log.kafka.taken import Pairs, Taken, headers_of
from penstock.log.records import Records

try:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic
except ImportError:
    intrinsic = None

_KNOWN = ("2.16.",)
"""Versions of confluent-kafka in which a client begins with Python's own fields and then its ``rd_kafka_t *``."""

_ERROR, _OFFSET, _TIME, _KEY, _VALUE, _HAS_HEADERS = range(6)
"""Rows of the facts about messages; lengths of keys and values are -1 for null."""

_OF_TOPIC, _OF_PARTITION, _OF_FLAGS, _OF_KEY, _OF_VALUE, _OF_TIME = range(6)
"""Rows of the parts of a message to write, each an ``rd_kafka_vu_t`` of nine words."""
_KINDS = 2, 3, 7, 5, 4, 8
"""Their ``rd_kafka_vtype_t``."""
_COPIES = 2
"""``RD_KAFKA_MSG_F_COPY`` without ``_BLOCK``: the caller waits for room itself."""


def is_possible() -> bool:
    """Return whether this client's memory layout is known, and a compiler is available."""
    is_usual = sys.implementation.name == "cpython" and struct.calcsize("P") == 8
    return is_usual and intrinsic is not None and confluent_kafka.__version__.startswith(_KNOWN)


if intrinsic is not None:

    @intrinsic  # type: ignore[untyped-decorator]
    def _word(context: Any, address: Any) -> Any:
        """Return the 64 bits at an address."""

        def generate(_: Any, builder: Any, __: Any, values: Any) -> Any:
            return builder.load(builder.inttoptr(values[0], ir.IntType(64).as_pointer()))

        return types.int64(types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _copy(context: Any, to: Any, source: Any, count: Any) -> Any:
        """Copy so many bytes."""

        def generate(_: Any, builder: Any, __: Any, values: Any) -> Any:
            both = (builder.inttoptr(value, cgutils.voidptr_t) for value in values[:2])
            cgutils.raw_memcpy(builder, *both, values[2], 1)
            return values[2]

        return types.int64(types.int64, types.int64, types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _call(context: Any, function: Any, first: Any, second: Any, third: Any) -> Any:
        """Call a C function with three words; surplus arguments do no harm."""

        def generate(_: Any, builder: Any, __: Any, values: Any) -> Any:
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word, word, word]).as_pointer()
            return builder.call(builder.inttoptr(values[0], kind), values[1:])

        return types.int64(types.int64, types.int64, types.int64, types.int64), generate

    @compiled(np.zeros(1, np.int64), 0, 0, 0, 0, np.zeros((6, 1), np.int64))
    def _look(messages: IntArray, count: int, time_of: int, headers_of: int, scratch: int, found: IntArray) -> None:
        """Read the facts about each message: fields of ``rd_kafka_message_t``, which is part of librdkafka's
        interface.
        """
        for i in range(count):
            at = messages[i]
            error = _word(at) & 0xFFFFFFFF
            found[0, i] = error - 0x100000000 if error & 0x80000000 else error
            found[1, i] = _word(at + 56)
            found[2, i] = _call(time_of, at, scratch, 0)
            found[3, i] = _word(at + 48) if _word(at + 40) != 0 else -1
            found[4, i] = _word(at + 32) if _word(at + 24) != 0 else -1
            found[5, i] = 1 if _call(headers_of, at, scratch, 0) & 0xFFFFFFFF == 0 else 0

    @compiled(np.zeros(1, np.int64), 0, 0, np.zeros(1, np.int32), 0)
    def _bring(messages: IntArray, count: int, field: int, starts: Any, to: int) -> None:
        """Copy keys or values one after the other."""
        for i in range(count):
            length = starts[i + 1] - starts[i]
            if length > 0:
                _copy(to + starts[i], _word(messages[i] + field), length)

    @compiled(np.zeros(1, np.int64), 0, 0)
    def _let_go(messages: IntArray, count: int, destroy: int) -> None:
        for i in range(count):
            _call(destroy, messages[i], 0, 0)

    @compiled(0, 0, np.zeros((6, 9), np.int64), 0, np.zeros((5, 1), np.int64), 0, 0, np.zeros(1, np.int64))
    def _produce(
        function: int,
        producer: int,
        message: IntArray,
        message_at: int,
        rows: IntArray,
        first: int,
        behind: int,
        refused: IntArray,
    ) -> int:
        """Produce records until one is refused. Return the number of the first that was not produced.

        A null key or value has no address.
        """
        for i in range(first, behind):
            message[_OF_KEY, 1], message[_OF_KEY, 2] = rows[0, i], rows[1, i]
            message[_OF_VALUE, 1], message[_OF_VALUE, 2] = rows[2, i], rows[3, i]
            message[_OF_TIME, 1] = rows[4, i]
            error = _call(function, producer, message_at, len(message))
            if error != 0:
                refused[0] = error
                return i
        return behind


@cache
def _library() -> Any:
    """Return the library that the client itself uses, found through the client."""
    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "rd_kafka_queue_get_partition": (pointer, [pointer, text, ctypes.c_int32]),
        "rd_kafka_queue_forward": (None, [pointer, pointer]),
        "rd_kafka_queue_destroy": (None, [pointer]),
        "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [pointer, number, pointer, ctypes.c_size_t]),
        "rd_kafka_message_headers": (number, [pointer, pointer]),
        "rd_kafka_header_get_all": (number, [pointer, ctypes.c_size_t, pointer, pointer, pointer]),
        "rd_kafka_topic_new": (pointer, [pointer, text, pointer]),
        "rd_kafka_topic_destroy": (None, [pointer]),
        "rd_kafka_error_code": (number, [pointer]),
        "rd_kafka_error_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in kinds.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _address(name: str) -> int:
    return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0


def _handle(client: Any) -> int:
    """Return the ``rd_kafka_t *`` of a client."""
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value or 0


class PartitionQueue:
    """The messages of one partition that a consumer has fetched; the consumer itself no longer gets them.

    Args:
        most: how many are taken at once.
    """

    def __init__(self, consumer: Any, topic: str, partition: int, most: int):
        library = _library()
        self._queue = library.rd_kafka_queue_get_partition(_handle(consumer), topic.encode(), partition)
        library.rd_kafka_queue_forward(self._queue, None)
        self._messages = np.zeros(most, np.int64)
        self._found = np.zeros((6, most), np.int64)
        self._scratch = np.zeros(1, np.int64)
        self._functions = [_address(f"rd_kafka_message_{what}") for what in ("timestamp", "headers", "destroy")]

    def take(self, seconds: float) -> Taken:
        """Return the messages that are there, or arrive within so many seconds."""
        take = _library().rd_kafka_consume_batch_queue
        count = take(self._queue, int(seconds * 1000), self._messages.ctypes.data, len(self._messages))
        if count <= 0:
            return Taken(None, [], [])
        time_of, headers, destroy = self._functions
        try:
            _look(self._messages, count, time_of, headers, self._scratch.ctypes.data, self._found)
            return self._taken(count)
        finally:
            _let_go(self._messages, count, destroy)

    def _taken(self, count: int) -> Taken:
        found = self._found[:, :count]
        is_record = found[_ERROR] == 0
        ends = found[_OFFSET][found[_ERROR] == KafkaError._PARTITION_EOF].tolist()
        codes = found[_ERROR][~is_record].tolist()
        errors = [KafkaError(code) for code in codes if code != KafkaError._PARTITION_EOF]
        if not is_record.any():
            return Taken(None, ends, errors)
        messages = self._messages[:count][is_record]
        found = found[:, is_record]
        offsets = found[_OFFSET].copy()
        records = Records(
            int(offsets[0]),
            _column(messages, 40, found[_KEY]),
            _column(messages, 24, found[_VALUE]),
            found[_TIME].copy(),
            self._headers(messages, found[_HAS_HEADERS] == 1),
            offsets=offsets,
        )
        return Taken(records, ends, errors)

    def _headers(self, messages: IntArray, has_some: BoolArray) -> Any:
        if not has_some.any():
            return None
        return headers_of([_pairs(int(at)) if has else None for at, has in zip(messages, has_some, strict=True)])

    def close(self) -> None:
        """Release it; must be called before its consumer closes."""
        _library().rd_kafka_queue_destroy(self._queue)


def _column(messages: IntArray, field: int, lengths: IntArray) -> Binary:
    """Return keys or values as a column, given the field of their address in a message."""
    ends = np.cumsum(np.maximum(lengths, 0))
    if ends[-1] > MOST_BYTES:
        raise too_large(int(ends[-1]))
    starts = np.zeros(len(lengths) + 1, np.int32)
    starts[1:] = ends
    data = np.empty(int(ends[-1]), np.uint8)
    _bring(messages, len(lengths), field, starts, data.ctypes.data)
    valid = lengths >= 0
    validity = None if valid.all() else pa.array(valid).buffers()[1]
    buffers = [validity, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers)


def _pairs(message: int) -> Pairs:
    library, headers = _library(), ctypes.c_void_p()
    library.rd_kafka_message_headers(message, ctypes.byref(headers))
    name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
    where = [ctypes.byref(one) for one in (name, value, size)]
    found: Pairs = []
    while library.rd_kafka_header_get_all(headers, len(found), *where) == 0:
        text = None if value.value is None else ctypes.string_at(value.value, size.value)
        found.append(((name.value or b"").decode(), text))
    return found


class Sending:
    """Records on their way to one partition, and how many of them a producer has taken.

    Args:
        records: without headers.
    """

    def __init__(self, producer: Any, topic: str, partition: int, records: Records):
        self._client = producer  # kept because it owns the handle
        self._producer = _handle(producer)
        self._topic = _library().rd_kafka_topic_new(self._producer, topic.encode(), None)
        if not self._topic:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"librdkafka does not take the topic {topic!r}"))
        self._records = records  # kept because they own the memory
        times = np.maximum(records.timestamp, 1)  # librdkafka takes 0 as the present time
        self._rows = np.stack([*_places(records.key), *_places(records.value), times])
        self._message = np.zeros((6, 9), np.int64)
        self._message[:, 0] = _KINDS
        for row, given in ((_OF_TOPIC, self._topic), (_OF_PARTITION, partition), (_OF_FLAGS, _COPIES)):
            self._message[row, 1] = given
        self._refused = np.zeros(1, np.int64)
        self._done = 0

    @property
    def is_over(self) -> bool:
        return self._done == len(self._records)

    def go_on(self, most: int) -> KafkaError | None:
        """Pass up to so many more records on. Return the error that refused the next one, None if all were taken."""
        behind = min(self._done + most, len(self._records))
        given = _address("rd_kafka_produceva"), self._producer, self._message, self._message.ctypes.data, self._rows
        self._done = _produce(*given, self._done, behind, self._refused)
        if self._done == behind:
            return None
        library, error = _library(), int(self._refused[0])
        code = library.rd_kafka_error_code(error)
        library.rd_kafka_error_destroy(error)
        return KafkaError(code)

    def close(self) -> None:
        """Release the topic; must be called before its producer closes."""
        _library().rd_kafka_topic_destroy(self._topic)


def _places(column: Binary) -> tuple[IntArray, IntArray]:
    """Return the address of each value, 0 for null, and its length."""
    found = spans(column)
    data = found.data if len(found.data) else np.zeros(1, np.uint8)  # an empty value needs an address, too
    missing = is_missing(column)
    return np.where(missing, 0, data.ctypes.data + found.start), np.where(missing, 0, found.length)
