"""Running brokers as a table."""
