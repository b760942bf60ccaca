"""The rows of all request codes, in families; `request_table` joins them."""
