"""The demo: 336,776 real flights through a broker that is killed on the way, and the verdict from Spark."""
