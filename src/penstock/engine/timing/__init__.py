"""Who waits for whom: tasks that keep abreast in time, and time that goes on without records."""
