"""Aggregates by name: ``Count()``, ``Sum("amount")`` and the like, and the aggregation that they make together."""
