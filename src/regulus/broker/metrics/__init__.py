"""What a broker counts, as families of metrics. Computed when the page is asked for, in steps; no I/O, no clock."""
