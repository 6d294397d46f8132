"""Testing topologies: in this process, with no Spark, no Java and no broker."""

from penstock.testing.captured import CapturedForward, CapturedPunctuator
from penstock.testing.driver import TopologyTestDriver
from penstock.testing.mock_context import MockProcessorContext
from penstock.testing.pipe import pipe
from penstock.testing.topics import TestInputTopic, TestOutputTopic

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "MockProcessorContext",
    "TestInputTopic",
    "TestOutputTopic",
    "TopologyTestDriver",
    "pipe",
]
