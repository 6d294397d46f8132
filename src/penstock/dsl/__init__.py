"""The methods that users chain: each checks its arguments and adds one plan node; nothing is executed."""
