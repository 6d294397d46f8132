"""A running task: from its input to files that a commit can make visible."""
