"""One row for each request code, family by family; `request_table` joins them."""
