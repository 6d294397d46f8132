"""Stores of every kind whose rows are in objects of a user's class."""
