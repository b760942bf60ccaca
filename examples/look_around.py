"""Shows what an operator needs: lists brokers and queues, finds a message by its key, and resets a group's offsets."""

import asyncio
import sys

from regulus import Admin, Message, Producer
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig


async def main(name_server: str = "127.0.0.1:9876") -> None:
    async with Admin(name_server) as admin, Producer(name_server, "shop") as producer:
        for name, broker in (await admin.cluster_info()).broker_addr_table.items():
            print(f"broker {name} at {broker.broker_addrs[0]}")
        await admin.create_topic(TopicConfig(topic_name="Invoices", read_queue_nums=2, write_queue_nums=2))
        sent = await producer.send(Message("Invoices", b"42", keys="invoice-7"))
        (found,) = [each for each in await admin.messages_by_key("Invoices", "invoice-7")
                    if each.message_id == sent.message_id]
        print(f"invoice-7 is in queue {found.queue_id} at {found.queue_offset}: {found.body.decode()}")
        for queue, offset in sorted((await admin.topic_stats("Invoices")).items()):
            print(f"queue {queue.queue_id} begins at {offset.min_offset} and ends before {offset.max_offset}")
        await admin.create_group(SubscriptionGroupConfig(group_name="audit"))
        await admin.reset_offset_by_timestamp("Invoices", "audit", 0)
        print(f"group audit has this to consume: {(await admin.progress('audit', 'Invoices')).lag}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
