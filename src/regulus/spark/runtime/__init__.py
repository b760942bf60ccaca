"""Java, sessions and Python workers: what Spark needs to run."""
