"""The files that define the tables; Spark imports each by itself."""
