"""Facts that follow from several steps together, one file for each pass."""
