"""The demo: 336,776 real flights, each committed once and applied once, while relay, broker and consumer are killed."""
