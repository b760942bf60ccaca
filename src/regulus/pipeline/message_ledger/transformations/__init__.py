"""What defines the tables; Spark imports each file by itself."""
