"""``processing_guarantee``: once exactly, or at least."""

import pytest

from penstock.errors import ConfigError
from penstock.settings import Settings


def test_it_is_exactly_once_unless_told_otherwise():
    assert not Settings().at_least_once
    assert Settings.load(environment={"PENSTOCK_PROCESSING_GUARANTEE": "at_least_once"}).at_least_once


def test_another_one_is_refused():
    with pytest.raises(ConfigError, match="must be one of exactly_once, at_least_once; got 'at_most_once'"):
        Settings(processing_guarantee="at_most_once")
