"""Functions between numpy and Arrow: views of binary arrays, hashes of keys, Kafka's partitioner.

Keys and values are Arrow ``binary`` arrays. Their offsets and bytes are viewed as numpy arrays here, so that a hash of
a hundred thousand keys takes a few dozen numpy calls and no Python per key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.usage.pandas_on_demand import import_pandas_on_demand

import_pandas_on_demand()

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
HashArray = NDArray[np.uint64]
Binary = Any  # pa.BinaryArray: pyarrow ships no types

EMPTY_INTS: IntArray = np.zeros(0, np.int64)

MOST_BYTES = 2**31 - 2
"""Most bytes of a binary array, because its offsets have 32 bits."""

_TOO_LARGE = ("offset overflow", "overflowed binary array capacity", "input array too large")
"""Messages of Arrow's errors that have no type of their own."""


LATEST = 2**63 - 1
"""The end of time."""


def shifted(times: IntArray, by: int) -> IntArray:
    """Return times shifted by a duration, which may be negative, within the range of times.

    >>> shifted(np.array([1, LATEST - 1]), 5).tolist() == [6, LATEST], shifted(np.array([1, -LATEST]), -5).tolist()[0]
    (True, -4)
    """
    if by >= 0:
        moved: IntArray = np.minimum(times, LATEST - by) + by
        return moved
    return np.maximum(times, -LATEST - 1 - by) + by


def numbered(far: IntArray, groups: int) -> tuple[IntArray, Callable[[IntArray], IntArray]]:
    """Return small numbers for numbers that may be far apart, and the function that reverses that.

    The small numbers start at 0 and leave room for one value per pair of a number and one of `groups` groups.

    >>> numbers, named = numbered(np.array([5, 2**62, 5]), 7)
    >>> numbers.tolist(), named(numbers).tolist()
    ([0, 1, 0], [5, 4611686018427387904, 5])
    """
    base, span = int(far.min()), int(far.max()) - int(far.min()) + 1
    if span < 2**62 // max(groups, 1):
        return far - base, lambda numbers: numbers + base
    found, numbers = np.unique(far, return_inverse=True)
    return numbers, lambda numbers: found[numbers]


class Spans(NamedTuple):
    """The places of a binary array's values in its bytes."""

    start: IntArray
    length: IntArray
    data: NDArray[np.uint8]


def spans(values: Binary) -> Spans:
    """Return the offsets and bytes of a binary array, without copying the bytes.

    >>> where = spans(pa.array([b"ab", b"", b"c"], pa.binary()))
    >>> where.start.tolist(), where.length.tolist()
    ([0, 2, 2], [2, 0, 1])
    """
    _, offset_buffer, data_buffer = values.buffers()
    if offset_buffer is None:
        return Spans(EMPTY_INTS, EMPTY_INTS, np.zeros(0, np.uint8))
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    offsets = np.frombuffer(offset_buffer, width)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return Spans(offsets[:-1], np.diff(offsets), data)


def fixed_binary(rows: NDArray[Any], valid: BoolArray | None = None) -> Binary:
    """A binary array of equally long values from the rows of a contiguous numpy array.

    >>> fixed_binary(np.array([1, 258], ">i8")).to_pylist()[1]
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02'
    """
    count = len(rows)
    width = rows.nbytes // count if count else 0
    if rows.nbytes > MOST_BYTES:
        raise too_large(rows.nbytes)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    validity = None if valid is None else pa.array(valid).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.BinaryArray.from_buffers(pa.binary(), count, buffers)


def binary(values: Sequence[bytes | None]) -> Binary:
    """A binary array of some values; raises ``ArrowCapacityError`` when they do not fit into one.

    >>> binary([b"a", None]).to_pylist()
    [b'a', None]
    """
    array = pa.array(values, pa.binary())
    if array.nbytes > MOST_BYTES:  # Arrow splits larger data into several arrays
        raise too_large(array.nbytes)
    return array


def too_large(nbytes: int) -> pa.ArrowCapacityError:
    return pa.ArrowCapacityError(f"array cannot contain more than {MOST_BYTES} bytes, have {nbytes}")


def is_too_large(error: BaseException) -> bool:
    """Return whether an error means that a binary array would have more bytes than its offsets can count.

    Code that processes a chunk must not catch these errors; the task starts again with smaller chunks.
    """
    if isinstance(error, pa.ArrowCapacityError):
        return True
    return isinstance(error, pa.ArrowInvalid) and any(words in str(error) for words in _TOO_LARGE)


def nulls(count: int) -> Binary:
    """Return a binary array of nulls."""
    return pa.nulls(count, pa.binary())


def null_mask(values: Binary) -> BoolArray | None:
    """Return which values are null; None if none is."""
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


def is_missing(values: Binary) -> BoolArray:
    """Return which values are null."""
    mask = null_mask(values)
    return np.zeros(len(values), np.bool_) if mask is None else mask


def is_present(values: Binary) -> BoolArray:
    """Return which values are not null."""
    return ~is_missing(values)


def without_first(values: Binary, count: int) -> Binary:
    """Return each value without its first bytes.

    >>> without_first(pa.array([b"abc", None, b"ab"], pa.binary()), 2).to_pylist()
    [b'c', None, b'']
    """
    return pc.binary_replace_slice(values, 0, count, b"")


def without_last(values: Binary, count: int) -> Binary:
    """Return each value without its last bytes."""
    return pc.binary_replace_slice(values, -count, _BEYOND, b"")


def items_at(data: NDArray[np.uint8], places: IntArray, kind: Any) -> NDArray[Any]:
    """Return the items of a numpy type at some places in bytes.

    >>> items_at(np.array([9, 1, 2, 3], np.uint8), np.array([1, 2]), ">u2").tolist()
    [258, 515]
    """
    kind = np.dtype(kind)
    everywhere = np.ndarray(max(len(data) - kind.itemsize + 1, 0), kind, np.ascontiguousarray(data), strides=(1,))
    return everywhere[places]


def take(values: Binary, rows: IntArray) -> Binary:
    """Return the values of some rows; the same array if these are all rows in order."""
    return values if is_all(rows, len(values)) else values.take(pa.array(rows))


def is_all(rows: IntArray, count: int) -> bool:
    """Return whether these are all of so many rows, in order.

    >>> is_all(np.array([0, 1, 2]), 3), is_all(np.array([0, 2, 1]), 3), is_all(np.array([0, 1]), 3)
    (True, False, False)
    """
    if len(rows) != count or not count:
        return len(rows) == count
    return bool(rows[0] == 0 and rows[-1] == count - 1 and (rows[1:] > rows[:-1]).all())


def first_numbers(values: Binary) -> IntArray:
    """Return the first 8 bytes of each value as a number, big endian.

    >>> first_numbers(pa.array([(7).to_bytes(8, "big") + b"key"], pa.binary())).tolist()
    [7]
    """
    where = spans(values)
    return items_at(where.data, where.start, ">i8").astype(np.int64)


def last_numbers(values: Binary) -> IntArray:
    """Return the last 8 bytes of each value as a number, big endian; 0 where it is null. No value may be shorter.

    >>> last_numbers(pa.array([b"key" + (7).to_bytes(8, "big")], pa.binary())).tolist()
    [7]
    """
    where = spans(values)
    missing = null_mask(values)
    present = np.arange(len(values)) if missing is None else np.flatnonzero(~missing)
    numbers = np.zeros(len(values), np.int64)
    numbers[present] = items_at(where.data, (where.start + where.length - 8)[present], ">i8")
    return numbers


def slices(data: NDArray[np.uint8], start: IntArray, length: IntArray, valid: BoolArray | None = None) -> Binary:
    """Return the bytes in these places as a binary array; null where not ``valid``.

    >>> data = np.frombuffer(b"onetwothree", np.uint8)
    >>> slices(data, np.array([6, 0]), np.array([5, 3])).to_pylist()
    [b'three', b'one']
    """
    offsets = offsets_of(length)
    if offsets[-1] > MOST_BYTES:
        raise too_large(int(offsets[-1]))
    taken = data[np.repeat(start - offsets[:-1], length) + np.arange(int(offsets[-1]))]
    return cut(taken, offsets, valid)


def cut(data: NDArray[np.uint8], offsets: IntArray, valid: BoolArray | None = None) -> Binary:
    """Return bytes as a binary array, cut at these offsets; null where not ``valid``."""
    if offsets[-1] > MOST_BYTES:
        raise too_large(int(offsets[-1]))
    validity = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def offsets_of(lengths: IntArray) -> IntArray:
    """Return where concatenated parts of these lengths begin, and where the last one ends.

    >>> offsets_of(np.array([3, 0, 2])).tolist()
    [0, 3, 3, 5]
    """
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def chained(first: IntArray, following: IntArray) -> IntArray:
    """Return all places reachable from the first ones, each through its predecessor. A place beyond the last ends a
    chain.

    >>> chained(np.array([0]), np.array([2, 1, 3, 4])).tolist()
    [0, 2, 3]
    """
    count = len(following)
    reached = np.zeros(count + 1, np.bool_)
    reached[first] = True
    jump = np.append(np.minimum(following, count), count)
    while (jump[reached] < count).any():  # twice as far each time; unreachable places may point anywhere
        reached[jump[reached]] = True
        jump = jump[jump]
    return np.flatnonzero(reached[:count])


def distinct(numbers: IntArray) -> IntArray:
    """Return the distinct numbers, ascending; ``numpy.unique`` hashes them, which takes many times as long.

    >>> distinct(np.array([7, 3, 7])).tolist()
    [3, 7]
    """
    in_order = np.sort(numbers)
    is_first = np.ones(len(in_order), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    return in_order[is_first]


_BEYOND = 2**31 - 1


def concat(arrays: list[Binary]) -> Binary:
    """Return one binary array of all of them."""
    if len(arrays) > 1 and (nbytes := sum(array.nbytes for array in arrays)) > MOST_BYTES:
        raise too_large(nbytes)
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


# --- words of the keys --------------------------------------------------------------------------------------------


class _Words:
    """Reads little-endian words at many places of some bytes at once."""

    def __init__(self, where: Spans, width: int):
        data = where.data
        if where.start.size:
            end = int((where.start + where.length).max()) + width
            if data.size < end:  # the last word may reach beyond the bytes
                data = np.concatenate([data, np.zeros(end - data.size, np.uint8)])
        self.width = width
        count = max(data.size - width + 1, 0)
        self._view = np.ndarray((count,), f"<u{width}", data, strides=(1,))
        self._mask = np.array([(1 << (8 * i)) - 1 for i in range(width + 1)], f"<u{width}")

    def at(self, places: IntArray) -> NDArray[Any]:
        return self._view[places]

    def tail(self, places: IntArray, length: IntArray) -> NDArray[Any]:
        """Return the first ``length`` bytes of the word at each place, the rest zero; length 0 reads nothing."""
        words: NDArray[Any] = self._view[np.where(length > 0, places, 0)] & self._mask[length]
        return words


_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)


def murmur2(keys: Binary) -> NDArray[np.uint32]:
    """Return Kafka's murmur2 hash of every key, like ``org.apache.kafka.common.utils.Utils.murmur2``.

    >>> murmur2(pa.array([b"21", b"foobar", b""], pa.binary())).view(np.int32).tolist()
    [-973932308, -790332482, 275646681]
    """
    where = spans(keys)
    words = _Words(where, 4)
    count = where.length >> 2
    h = _SEED ^ where.length.astype(np.uint32)
    fewest, most = (int(count.min()), int(count.max())) if count.size else (0, 0)
    for i in range(most):
        if i < fewest:
            h = (h * _M) ^ _scramble(words.at(where.start + 4 * i))
        else:
            has = np.flatnonzero(count > i)
            h[has] = (h[has] * _M) ^ _scramble(words.at(where.start[has] + 4 * i))
    rest = where.length & 3
    if rest.any():
        tail = words.tail(where.start + 4 * count, rest)
        h = np.where(rest > 0, (h ^ tail) * _M, h)
    h ^= h >> np.uint32(13)
    h *= _M
    result: NDArray[np.uint32] = h ^ (h >> np.uint32(15))
    return result


def _scramble(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    word = word * _M
    word ^= word >> np.uint32(24)
    return word * _M


def partitions(keys: Binary, count: int, without_key: int | IntArray) -> IntArray:
    """Return the partition of every key under Kafka's default partitioner; ``without_key`` for null keys."""
    placed: IntArray = (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    missing = null_mask(keys)
    result: IntArray = placed if missing is None else np.where(missing, without_key % count, placed)
    return result


_K1 = np.uint64(0xFF51AFD7ED558CCD)
_K2 = np.uint64(0xC4CEB9FE1A85EC53)
_GOLD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_GOLD_INT, _K1_INT, _K2_INT = int(_GOLD), int(_K1), int(_K2)
_ALL_BITS = 2**64 - 1


def hash64(keys: Binary) -> HashArray:
    """Return a 64-bit hash of every key, for tables in memory; never stored."""
    where = spans(keys)
    words = _Words(where, 8)
    h = where.length.astype(np.uint64) * _GOLD
    shortest, longest = (int(where.length.min()), int(where.length.max())) if where.length.size else (0, 0)
    for i in range(0, longest, 8):
        if i + 8 <= shortest:
            h = _mix(h, words.at(where.start + i))
        else:
            has = np.flatnonzero(where.length > i)
            left = np.minimum(where.length[has] - i, 8)
            h[has] = _mix(h[has], words.tail(where.start[has] + i, left))
    return _finish(h)


def hash64_pairs(hashes: HashArray, numbers: IntArray) -> HashArray:
    """Return the hash of each key together with a number, such as a window's start."""
    return _finish(_mix(hashes, numbers.view(np.uint64)))


def hash64_one(key: bytes) -> int:
    """Return the ``hash64`` of one key, without an array.

    >>> hash64(pa.array([b"Frankfurt"], pa.binary())).tolist() == [hash64_one(b"Frankfurt")]
    True
    """
    h = len(key) * _GOLD_INT & _ALL_BITS
    for i in range(0, len(key), 8):
        h = (h ^ int.from_bytes(key[i : i + 8], "little")) * _K1_INT & _ALL_BITS
        h ^= h >> 32
    return _finish_one(h)


def hash64_pair_one(hash_: int, number: int) -> int:
    """Return the ``hash64_pairs`` of one hash and number."""
    h = (hash_ ^ (number & _ALL_BITS)) * _K1_INT & _ALL_BITS
    return _finish_one(h ^ h >> 32)


def _finish_one(h: int) -> int:
    h = h * _K2_INT & _ALL_BITS
    return h ^ h >> 32


def _mix(h: HashArray, word: NDArray[Any]) -> HashArray:
    h = (h ^ word) * _K1
    h ^= h >> _HALF
    return h


def _finish(h: HashArray) -> HashArray:
    h = h * _K2
    h ^= h >> _HALF
    return h
