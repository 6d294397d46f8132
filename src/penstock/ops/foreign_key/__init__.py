"""Joins of tables by a foreign key: subscriptions go to the right table, responses come back (KIP-213)."""
