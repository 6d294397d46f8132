"""Lets every Spark session find ``format("penstock-state")``: Spark looks for packages of this name by itself."""

from penstock.frames.state_frames import StateSource as DefaultSource

__all__ = ["DefaultSource"]
