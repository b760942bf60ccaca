"""Tables outside the log: databases and files that jobs compare it with."""
