"""Records and rows as columns, and compiled rules over them."""
