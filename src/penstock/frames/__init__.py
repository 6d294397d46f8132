"""Spark DataFrames of topics and state, without a program."""
