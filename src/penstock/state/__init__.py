"""State stores: rows in columns, transactions, databases, delta files, snapshots."""
