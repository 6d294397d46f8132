"""The command line: ``penstock run``, ``topics``, ``topology``, ``config``, ``doctor``. One file for each."""
