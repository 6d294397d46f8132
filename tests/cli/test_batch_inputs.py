"""``penstock batch --input``: what is certain to fail is refused before Spark starts."""

from pathlib import Path

import pytest

from penstock.cli import batch

PROGRAM = """
from penstock import StreamsBuilder
builder = StreamsBuilder()
builder.stream("orders").to("copies")
topology = builder.build()
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "orders=lake/none.parquet",
            "there is no file or folder lake/none.parquet in FOLDER; give the path of the rows of 'orders'",
        ),
        (
            "oders=here.json",
            "the program does not read a topic 'oders' (did you mean 'orders'?); it reads orders",
        ),
        ("orders", "write it like --input orders=lake/orders; got 'orders'"),
    ],
)
def test_an_input_that_cannot_be_is_refused_before_spark_starts(penstock, folder: Path, monkeypatch, given, message):
    monkeypatch.setattr(batch, "_session", lambda *_: pytest.fail("Spark was started"))
    (folder / "app.py").write_text(PROGRAM)
    (folder / "here.json").write_text('{"a": 1}')
    code, out, err = penstock("batch", "app.py", "--input", given)
    assert (code, out) == (2, [])
    assert err[-1] == f"Error: Invalid value for '--input': {message}".replace("FOLDER", str(folder))


@pytest.mark.parametrize("given", ["here.json", "s3a://lake/orders", "file:///none", "part-*.json", "{a,b}.json"])
def test_an_input_that_only_spark_can_judge_is_left_to_spark(penstock, folder: Path, monkeypatch, given):
    def started(*_):
        raise KeyError("Spark was asked")

    monkeypatch.setattr(batch, "_session", started)
    (folder / "app.py").write_text(PROGRAM)
    (folder / "here.json").write_text('{"a": 1}')
    with pytest.raises(KeyError, match="Spark was asked"):
        penstock("batch", "app.py", "--input", f"orders={given}")
