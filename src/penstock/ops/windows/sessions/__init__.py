"""Session windows (KIP-94)."""
