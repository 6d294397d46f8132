"""Joins by the key: of streams, of tables, of a stream with a table."""
