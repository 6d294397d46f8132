"""Slots: processes that own tasks, kept for as long as the program runs, wherever they are started."""
