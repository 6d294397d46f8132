"""Versioned stores: every version of a key, by its time (KIP-889, KIP-914)."""
