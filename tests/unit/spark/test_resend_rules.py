"""Spark answers the rules of resends as the databases do."""

import pytest

from regulus.model.resend_rules import FACTS, ResendAction, resend_rules
from tests.property.test_resend_rules import FRESH, LIMITS, MAX, MOVES, NOW, SENT, wanted


@pytest.mark.spark
@pytest.mark.once
def test_spark_answers_as_the_table_says(spark):
    from pyspark.sql import functions as F

    rows = [(status, is_manual, send_count, resend_time, is_behind, log_time, move_time, first_send_time)
            for status in ("UNCONFIRMED", "CONFIRMED", "VOIDED") for is_manual in (False, True)
            for send_count in (0, MAX - 1, MAX) for resend_time in (NOW, NOW + 1) for is_behind in (False, True)
            for log_time in (None, 0, FRESH - 1, FRESH) for move_time in (MOVES - 1, MOVES)
            for first_send_time in (None, SENT - 1, SENT, MOVES)]
    schema = ("status string, is_manual boolean, send_count int, resend_time bigint, is_behind boolean, "
              "log_time bigint, move_time bigint, first_send_time bigint")
    (first, action), *others = resend_rules({name: F.col(name) for name in FACTS}, LIMITS)
    chosen = F.when(first, action.value)
    for condition, then in others:
        chosen = chosen.when(condition, then.value)
    found = spark.createDataFrame(rows, schema).select(*FACTS, chosen.otherwise(ResendAction.RESEND.value))
    assert [(tuple(row)[:-1], row[-1]) for row in found.collect()] == [(row, wanted(row)) for row in rows]
