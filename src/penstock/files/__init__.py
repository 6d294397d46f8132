"""Paths and files that others may have written, and temporary folders."""
