"""The sinks of a program: threads of its own process that hand committed records on."""
