"""Tables of Delta Lake and Iceberg: each batch and its number in one commit of the table."""
