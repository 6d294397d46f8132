"""The life of an application: its states, its lock, its restores, and how it begins again."""
