#!/bin/sh
# The Python of Spark's workers without the places that Spark puts before all others, and with a daemon of our own; see
# worker_python.py.
rest=$PYTHONPATH: kept=
while [ -n "$rest" ]; do
    place=${rest%%:*} rest=${rest#*:}
    case $place in
        "${SPARK_HOME:-/none}"/*) ;;
        *) kept=$kept${kept:+:}$place ;;
    esac
done
case "$1 $2" in
    "-m pyspark.daemon")
        shift 2
        set -- -m regulus.spark.runtime.worker_daemon "$@"
        ;;
esac
PYTHONPATH=$kept exec "$REGULUS_WORKER_PYTHON" "$@"
