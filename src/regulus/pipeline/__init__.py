"""Jobs on the log as a table: read, steps, write."""
