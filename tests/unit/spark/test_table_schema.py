import pytest

from regulus.errors import OptionError
from regulus.spark.table_schema import COLUMNS, TABLES, check_schema, ddl


def test_ddl_of_chosen_columns():
    assert ddl(("queue_id", "body")) == "queue_id int, body binary"
    assert ddl(("lag",), TABLES["offsets"]) == "lag bigint"


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(OptionError, match="no column 'lag'; it has topic, broker_name"):
        ddl(("lag",))


def test_a_schema_chooses_columns_of_the_right_type():
    assert check_schema([("body", "binary"), ("topic", "string")], COLUMNS) == ("body", "topic")
    with pytest.raises(OptionError, match="the schema has queue_offset int, not queue_offset bigint"):
        check_schema([("queue_offset", "int")], COLUMNS)
