"""The sources of a program: threads of its own process that bring records into topics of the program."""
