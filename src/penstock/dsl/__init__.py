"""What users chain: argument checks and one plan node a call; no execution."""
