"""Operators that keep nothing: each record by itself."""
