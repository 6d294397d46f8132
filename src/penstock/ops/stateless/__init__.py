"""Operators without state: each record is processed by itself."""
