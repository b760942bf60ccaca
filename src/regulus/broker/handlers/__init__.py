"""One module per request, or family of requests, named as its code."""
