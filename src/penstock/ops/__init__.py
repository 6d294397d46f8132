"""Operators: a step over one chunk of records; no Spark, no files, no clocks."""
