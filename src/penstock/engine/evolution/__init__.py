"""Programs that have state and change: what of the state goes on, under which names, and what is refused."""
