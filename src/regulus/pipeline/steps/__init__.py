"""Pure steps: DataFrame to DataFrame, no session, no I/O."""
