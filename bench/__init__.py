"""The benchmark: what Penstock costs, beside its limits and beside Kafka Streams. ``python -m bench`` runs it."""
