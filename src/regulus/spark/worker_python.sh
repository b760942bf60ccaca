#!/bin/sh
# The Python of Spark's workers without the places that Spark puts before all others; see worker_python.py.
rest=$PYTHONPATH: kept=
while [ -n "$rest" ]; do
    place=${rest%%:*} rest=${rest#*:}
    case $place in
        "${SPARK_HOME:-/none}"/*) ;;
        *) kept=$kept${kept:+:}$place ;;
    esac
done
PYTHONPATH=$kept exec "$REGULUS_WORKER_PYTHON" "$@"
