"""Sends a program, which may be a script or a notebook, to other processes."""
