"""Aggregations in windows: of time, sliding, sessions; final results of them."""
