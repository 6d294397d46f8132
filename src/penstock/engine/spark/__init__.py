"""Runs applications on Spark."""
