"""Facts that follow from several steps together, one pass a file."""
