"""The columns of the tables. Spark requests them in a separate process, so this module imports nothing heavy."""

from collections.abc import Iterable, Mapping, Sequence

from regulus.errors import OptionError

COLUMNS: dict[str, str] = {
    "topic": "string",
    "broker_name": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "physical_offset": "bigint",
    "store_size": "int",
    "message_id": "string",
    "offset_message_id": "string",
    "message_type": "string",
    "keys": "string",
    "tags": "string",
    "properties": "map<string,string>",
    "body": "binary",
    "body_crc": "int",
    "flag": "int",
    "sys_flag": "int",
    "born_time": "timestamp",
    "store_time": "timestamp",
    "born_host": "string",
    "store_host": "string",
    "reconsume_times": "int",
    "prepared_transaction_offset": "bigint",
    "deliver_time": "timestamp",
    "sharding_key": "string",
    "origin_topic": "string",
    "origin_message_id": "string",
}
"""The messages: column names in order, with their types in Spark's words."""


KAFKA_COLUMNS: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The messages under the names of Spark's Kafka source; `headers` is there only on request."""

_QUEUE = {"topic": "string", "broker_name": "string", "queue_id": "int"}

TABLES: dict[str, dict[str, str]] = {
    "messages": COLUMNS,
    "queues": {**_QUEUE, "min_offset": "bigint", "max_offset": "bigint", "message_count": "bigint",
               "first_store_time": "timestamp", "last_store_time": "timestamp", "bytes": "bigint",
               "topic_made_time": "timestamp", "missing_before": "bigint", "missing_behind": "bigint",
               "missing_cause": "string", "is_lost": "boolean"},
    "offsets": {"consumer_group": "string", **_QUEUE, "consumer_offset": "bigint", "max_offset": "bigint",
                "lag": "bigint", "last_consumed_store_time": "timestamp"},
    "topics": {"topic": "string", "broker_name": "string", "read_queue_nums": "int", "write_queue_nums": "int",
               "perm": "int", "is_order": "boolean", "topic_sys_flag": "int", "attributes": "map<string,string>"},
    "groups": {"consumer_group": "string", "broker_name": "string", "consume_enable": "boolean",
               "consume_broadcast_enable": "boolean", "consume_message_orderly": "boolean", "retry_queue_nums": "int",
               "retry_max_times": "int", "consume_timeout_minute": "int", "attributes": "map<string,string>"},
    "consume_queue": {**_QUEUE, "queue_offset": "bigint", "physical_offset": "bigint", "size": "int",
                      "tags_code": "bigint"},
    "index": {"file": "string", "entry": "int", "key_hash": "int", "physical_offset": "bigint",
              "store_time": "timestamp", "previous": "int"},
    "trace": COLUMNS,
}
"""The tables that the option `table` can name. `trace` holds the messages of the trace topic."""


def ddl(columns: Sequence[str], table: Mapping[str, str] = COLUMNS) -> str:
    """The columns' schema in Spark's words. Raises OptionError for a column that the table does not have."""
    unknown = [name for name in columns if name not in table]
    if unknown:
        raise OptionError(f"the table has no column {unknown[0]!r}; it has {', '.join(table)}")
    return ", ".join(f"{name} {table[name]}" for name in columns)


def check_schema(schema: Iterable[tuple[str, str]], table: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the columns in a user's schema, which has names and types in Spark's words.

    Raises OptionError for a column that the table does not have, or has with another type.
    """
    chosen = dict(schema)
    ddl(tuple(chosen), table)
    for name, kind in chosen.items():
        if kind != table[name]:
            raise OptionError(f"the schema has {name} {kind}, not {name} {table[name]}")
    return tuple(chosen)
