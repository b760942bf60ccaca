"""Reports as pages, with their charts."""
