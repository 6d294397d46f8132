"""Stream time, record by record."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from penstock.state.clock import StreamTime


@given(st.lists(st.lists(st.integers(-1, 50))))
def test_stream_time_is_the_running_maximum_however_records_are_cut_into_batches(batches):
    time, seen = StreamTime(), [-1]
    for batch in batches:
        times = time.advance(np.array(batch, np.int64)).tolist()
        expected = [max(*seen, *batch[: i + 1]) for i in range(len(batch))]
        assert times == expected
        seen += batch
    assert time.now == max(seen)


def test_a_rollback_takes_stream_time_back_to_the_last_commit():
    time = StreamTime()
    time.advance(np.array([5]))
    time.commit()
    time.advance(np.array([9]))
    time.rollback()
    assert time.now == 5
    time.restore(7)
    time.rollback()
    assert time.now == 7
