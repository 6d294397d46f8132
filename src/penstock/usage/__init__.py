"""How users call Penstock: where, with which arguments, by which names."""
