"""Windowed keys as columns of Arrow."""

import pytest

from penstock import Windowed
from penstock.arrays import binary
from penstock.serdes import STR
from penstock.serdes.arrow_columns import column_of
from penstock.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde, WindowedSerde


@pytest.mark.parametrize("serde", [TimeWindowedSerde(STR, 10), SessionWindowedSerde(STR)], ids=lambda serde: serde.name)
def test_windowed_keys_are_structs_and_a_null_key_is_null(serde: WindowedSerde) -> None:
    column = column_of(serde, binary([serde.encode(Windowed("a", 5, 15)), None, serde.encode(Windowed("", 0, 10))]))
    assert column.field("key").to_pylist() == ["a", None, ""]
    assert column.field("start").cast("int64").to_pylist()[::2] == [5, 0]
    assert column.field("end").cast("int64").to_pylist()[::2] == [15, 10]
    assert column.is_null().to_pylist() == [False, True, False]
