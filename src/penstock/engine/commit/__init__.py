"""What is read, by whom, and the moment from which it counts."""
