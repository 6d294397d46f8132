"""A task at work: from its input to files that a commit can make visible."""
