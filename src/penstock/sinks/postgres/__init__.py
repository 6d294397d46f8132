"""Rows in PostgreSQL, through psycopg; the extra ``penstock-streams[postgres]``."""
