"""The commit protocol: how a commit is opened, attempted, checked and published."""
