"""The trace of the real Java client, kept by a broker of ours, told as groups and ways."""

import pytest

from regulus.client.sync import Producer
from regulus.errors import JobRefused
from regulus.model.message import Message
from tests.golden.recorded_session import frames_of

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def test_the_java_clients_trace_out_of_a_store(spark, regulus_server):
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.trace_report import TraceRequest, trace_report

    source = LogSource({"nameServer": regulus_server.name_server_address})
    with pytest.raises(JobRefused, match="has no topic 'my_trace'"):
        trace_report(spark, TraceRequest(source=source, topic="my_trace"))
    with Producer(regulus_server.name_server_address, "replayed") as producer:
        for frame in frames_of("trace"):
            if frame.from_client and frame.command.ext.get("b") == "RMQ_SYS_TRACE_TOPIC":
                producer.send(Message("my_trace", frame.command.body))
        producer.send(Message("my_trace", b"Pub\x01cut short\x02"))
    report = trace_report(spark, TraceRequest(source=source, topic="my_trace"))
    assert [(row["consumer_group"], row["topic"], row["consumed"], row["failed"])
            for row in report.groups.collect()] == [("CG_trace", "GNormal", 1, 0)]
    assert [(row["producer_group"], row["topic"], row["consumer_group"], row["messages"])
            for row in report.ways.collect()] == [("PG_trace", "GNormal", "CG_trace", 1)]
    assert [row["record"] for row in report.rejects.collect()] == ["Pub|cut short"]
    report.close()
    other = trace_report(spark, TraceRequest(source=source, topic="my_trace", message_id="another"))
    assert other.spans.count() == 0
    other.close()
