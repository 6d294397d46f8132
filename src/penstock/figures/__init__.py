"""The counts of an application: metrics and lost records."""
