"""The columns of the table. Spark asks for them in a process of its own, so this imports nothing heavy."""

from collections.abc import Sequence

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
"""The table: column names in order, with their types in Spark's words."""


def ddl(columns: Sequence[str]) -> str:
    """The columns' schema in Spark's words. Raises OptionError for a column that the table does not have."""
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise OptionError(f"the table has no column {unknown[0]!r}; it has {', '.join(COLUMNS)}")
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)
