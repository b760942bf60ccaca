"""Java's largest whole numbers, which bound what RocketMQ sends and stores; Spark and SQL databases have the same.

The least ones are `-INT_MAX - 1` and `-LONG_MAX - 1`. A compiled module takes them over under a private name, as a C
constant.
"""

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
