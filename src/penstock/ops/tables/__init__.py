"""Tables: their rows, what they send on, and looking them up."""
