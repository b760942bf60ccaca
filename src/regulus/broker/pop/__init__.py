"""Pop consumption: what is handed out, in which order, and what comes back."""
