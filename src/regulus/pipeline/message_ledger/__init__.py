"""The message ledger, a pipeline that `regulus pipeline run` finds and that Spark's own command line runs as well."""
