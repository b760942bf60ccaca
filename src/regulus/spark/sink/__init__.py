"""What is written: rows of a frame become messages, with the guarantee that the options name."""
