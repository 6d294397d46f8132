"""Tasks and commits: the same with Spark and without."""
