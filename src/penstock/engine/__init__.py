"""Runs tasks and makes commits, with Spark and without it."""
