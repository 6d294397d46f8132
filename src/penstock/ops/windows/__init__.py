"""Windowed aggregations: time, sliding and session windows, and their final results."""
