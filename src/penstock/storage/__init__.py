"""Where an application's commits are kept: in a folder or in an object store."""
