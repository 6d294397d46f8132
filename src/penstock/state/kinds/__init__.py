"""The kinds of stores, one file for each."""
