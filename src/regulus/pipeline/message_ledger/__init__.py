"""The message ledger, a pipeline that both `regulus pipeline run` and Spark's own command line can run."""
