"""Tables: their rows, the changes that they send, and look-ups in them."""
