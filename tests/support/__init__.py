"""What several tests share: rows and records written as plain Python values."""
