"""Sliding windows: ``SlidingWindows``."""
