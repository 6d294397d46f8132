"""Reading state from outside."""
