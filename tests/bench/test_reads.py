"""Committed state from outside: every key that was counted is found, and a machine without state gets all of it."""

from bench import reads, restore


def test_a_store_that_was_filled_is_read_from_outside(tmp_path, monkeypatch):
    monkeypatch.setattr(reads, "READS", 50)
    monkeypatch.setattr(reads, "WARM_UP", 5)
    assert reads.fill(tmp_path, 200) == []

    rate, p99, opening = reads.read(tmp_path, 200)

    assert rate > 0
    assert 0 < p99 < 10_000
    assert opening > 0


def test_a_machine_without_state_gets_it_from_the_checkpoint(tmp_path):
    reads.fill(tmp_path, 200)

    rate, seconds = restore.restore(tmp_path, 200)

    assert rate > 0
    assert seconds > 0
    assert any((tmp_path / "tasks").iterdir())
