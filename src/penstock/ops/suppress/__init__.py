"""``suppress``: holds updates back for a time, or until the window closes (KIP-328)."""
