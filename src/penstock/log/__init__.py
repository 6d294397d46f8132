"""Topics: partitions of ordered records."""
