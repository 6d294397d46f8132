"""Operating an application: its states, its lock, its restores, and its reset."""
