"""Files that appear in a folder or a bucket."""
