"""The layout of a topology over tasks, its stored description, and the messages between driver and slots."""
