"""The digest of an output."""

import pyarrow as pa
from bench.digest import Digest, content, digest

from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog


def partition(*records):
    keys, values = zip(*records) if records else ((), ())
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


def test_the_last_value_of_each_key_and_window_counts():
    first = partition(
        (b"a", b'{"w":0,"n":1}'),
        (b"b", b'{"w":0,"n":1}'),
        (b"a", b'{"w":0,"n":2}'),
        (b"a", b'{"w":60000,"n":5}'),
    )
    second = partition((b"c", b'{"w":0,"n":7}'))

    found = digest(("w", "n"), [first, second, partition()])

    assert found == Digest(records=5, result_keys=4, result_sum=2 + 1 + 5 + 7)


def test_an_output_that_is_no_table_has_records_only():
    assert digest((), [partition((b"a", b"x"), (b"a", b"y"))]) == Digest(records=2)


def test_the_content_of_a_topic_is_all_its_records_by_partition(tmp_path):
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("out", 2))
    for keys in ([b"a", b"b"], [b"c"]):
        with log.writer("out", f"test-{keys[0].decode()}") as writer:
            writer.write(1, pa.array(keys), pa.array(keys), pa.array(range(len(keys)), pa.int64()).to_numpy())
        log.append("out", writer.segments())

    assert [keys.to_pylist() for keys, _ in content(log, "out")] == [[], [b"a", b"b", b"c"]]
