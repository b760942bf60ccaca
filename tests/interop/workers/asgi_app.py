"""An ASGI application with one asyncio producer in each worker, which lives as long as that serves."""

import asyncio
import os

from regulus import Message, Producer


class Application:
    def __init__(self):
        self.producer = None
        self.sends = set()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        else:
            await self.serve(send)

    async def live(self, receive, send):
        await receive()
        async with Producer(os.environ["NAMESRV_ADDR"], "web") as self.producer:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def serve(self, send):
        await self.producer.send(Message("Web", b"asked for"))
        for _ in range(10):
            sending = asyncio.create_task(self.producer.send(Message("Web", b"not asked for")))
            self.sends.add(sending)
            sending.add_done_callback(self.sends.discard)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})


application = Application()
