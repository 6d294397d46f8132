"""Slots: long-lived processes that own tasks, wherever they are started."""
