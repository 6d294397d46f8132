"""Rows of a store in memory, as columns."""
