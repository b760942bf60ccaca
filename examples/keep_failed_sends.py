"""Keeps sends that failed for good in a file; the next producer with that file sends them again, in order."""

import asyncio
import sys
import tempfile
from pathlib import Path

from regulus import KeptSends, Message, Producer, ProducerConfig
from regulus.errors import SendKept

NOBODY = "127.0.0.1:1"


async def main(name_server: str = "127.0.0.1:9876") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "orders.kept")
        hasty = ProducerConfig(send_msg_timeout=100)
        async with Producer(NOBODY, "shop", hasty, on_send_failed=KeptSends(path)) as shop:
            for number in range(3):
                try:
                    await shop.send(Message("Orders", b"order %d" % number))
                except SendKept as error:
                    print(f"kept: {error.__cause__}")
        kept = KeptSends(path)
        async with Producer(name_server, "shop", on_send_failed=kept):
            print(f"{kept.status.waiting} wait")
            while kept.status.waiting:
                await asyncio.sleep(0.1)
        print("all are stored, in order")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
