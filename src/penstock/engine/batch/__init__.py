"""A whole topology as one batch job of Spark: DataFrames in, DataFrames out (docs/decisions/0083)."""
