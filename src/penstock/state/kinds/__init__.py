"""The kinds of stores, one a file."""
