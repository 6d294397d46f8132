"""Rescaling: an application continues with another number of partitions."""
