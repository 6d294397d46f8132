"""Builds operators from the parts of a sub-topology."""
