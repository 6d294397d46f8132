"""Requests that come in over HTTP, and are answered when their records are in the log."""
