"""Look-ups in committed state: every key that was counted is found from outside."""

from bench import reads


def test_a_store_that_was_filled_is_read_from_outside(tmp_path, monkeypatch):
    monkeypatch.setattr(reads, "READS", 50)
    monkeypatch.setattr(reads, "WARM_UP", 5)
    assert reads.fill(tmp_path, 200) == []

    rate, p99, opening = reads.read(tmp_path, 200)

    assert rate > 0
    assert 0 < p99 < 10_000
    assert opening > 0
