"""How a topology is spread over tasks, what is written down of it, and what travels between driver and slots."""
