"""The queries of Spark that belong to a program: DataFrames into its topics, and its results into tables."""
