"""Micro-batches: a program whose every commit is a short job of Spark, for places where slots cannot live."""
