"""The archive job: a broker's commit log becomes Parquet files."""
