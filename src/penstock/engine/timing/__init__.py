"""Timing: tasks that stay close in time, and time that advances without records."""
