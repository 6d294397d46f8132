"""What an application counts: metrics and lost records."""
