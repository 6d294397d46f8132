"""Deduplication (KIP-655)."""
