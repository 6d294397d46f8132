"""Testing topologies: in this process, with no Spark, no Java and no broker."""

from penstock.testing.driver import TopologyTestDriver
from penstock.testing.pipe import pipe
from penstock.testing.topics import TestInputTopic, TestOutputTopic

__all__ = ["TestInputTopic", "TestOutputTopic", "TopologyTestDriver", "pipe"]
