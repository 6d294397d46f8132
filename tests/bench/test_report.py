"""Figures and what they have to be."""

from bench.report import at_least, at_most


def test_a_limit_is_reached_or_missed():
    assert at_most("ratio", 1.5, 1.5).cells() == ("ratio", "1.50 times", "", "at most 1.5", "reached")
    assert at_most("ratio", 1.51, 1.5).cells() == ("ratio", "1.51 times", "", "at most 1.5", "MISSED")
    assert at_least("ratio", 6.99, 7).cells() == ("ratio", "7.0 times", "", "at least 7", "MISSED")
    assert at_least("ratio", 3.0, 0).cells() == ("ratio", "3.0 times", "", "", "")
