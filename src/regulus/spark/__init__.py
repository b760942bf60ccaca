"""The log as a Spark table: `spark.read.format("rocketmq")`."""
