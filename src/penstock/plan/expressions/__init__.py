"""Expressions over the fields of values: ``col("amount") > 20``."""
