"""The nouns of the system, without their encodings."""
