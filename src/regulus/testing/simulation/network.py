"""A network in memory: connections whose bytes take time, stall, arrive in pieces or never.

Each direction of a connection keeps the order of its bytes. A *cut* connection ends on both sides, and bytes on their
way are lost. Between *partitioned* hosts no bytes move, without notice: they wait until the hosts are joined again, and
new connections are not made. A node that dies takes its connections along: if it is killed, its system notifies the
peers; without power it does not, and they wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from regulus.testing.simulation.loop import Node, SimulatedLoop

_LATENCY_S = (0.000_1, 0.001_5)
_SLOW_LATENCY_S = (0.005, 0.12)
_SLOW = 0.04
_SPLIT = 0.05
_SILENCE_MAX_S = 20.0
"""How long the system waits for a peer without power before it gives it up."""
_SOCKET_BUFFER = 64 << 10
_PORT_MIN = 40_000

OnDelivery = Callable[[Node, Node, bytes], None]


class SimulatedSocket:
    """A bound socket that does not listen yet, with the methods that a listener needs."""

    def __init__(self, network: "SimulatedNetwork", node: Node, port: int) -> None:
        self.network = network
        self.node = node
        self.port = port
        self.factory: Callable[[], asyncio.BaseProtocol] | None = None

    def getsockname(self) -> tuple[str, int]:
        return self.node.host, self.port

    def serve(self, factory: Callable[[], asyncio.BaseProtocol]) -> "SimulatedSocket":
        self.factory = factory
        return self

    def close(self) -> None:
        self.network.unbind(self)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection. Written bytes wait in `_waiting` until they arrive there."""

    def __init__(self, network: "SimulatedNetwork", node: Node, own: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__()
        self.network = network
        self.node = node
        self.other: SimulatedTransport
        self.protocol: Any = None
        self._own = own
        self._peer = peer
        self._waiting: deque[bytes] = deque()       # b"" is the end
        self._size = 0
        self._high, self._low = _SOCKET_BUFFER, _SOCKET_BUFFER // 4
        self._is_paused = False                     # reading
        self._is_full = False                       # the protocol must stop writing
        self._is_closing = False
        self.is_lost = False
        self._last_arrival = 0.0
        self._is_moving = False

    # --- called by a protocol ----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self._peer, "sockname": self._own}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else _SOCKET_BUFFER
        self._low = low if low is not None else self._high // 4

    def get_write_buffer_size(self) -> int:
        return max(0, self._size - _SOCKET_BUFFER)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.other.move()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self.is_lost or not data:
            return
        self._put(bytes(data))
        if not self._is_full and self.get_write_buffer_size() > self._high:
            self._is_full = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._is_closing and not self.is_lost:
            self._is_closing = True
            self._put(b"")
            self.network.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self.is_lost:
            self._is_closing = True
            self.network.loop.call_soon(self._lose, None)
            self.network.later(self.other, self.other._lose, ConnectionResetError(104, "Connection reset by peer"))

    # --- bytes on their way ------------------------------------------------------------------------------------------

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self.move()

    def move(self) -> None:
        """Let the next bytes arrive at the other end, after their time."""
        if self._is_moving or not self._waiting or self.other.is_lost or self.other._is_paused \
                or self.network.is_parted(self.node.host, self.other.node.host):
            return
        self._is_moving = True
        loop = self.network.loop
        self._last_arrival = max(self._last_arrival, loop.time() + self.network.latency())
        loop.call_at(self._last_arrival, self._arrive, context=self.other.node.context)

    def _arrive(self) -> None:
        self._is_moving = False
        other = self.other
        if other.is_lost or not self._waiting or other._is_paused or not other.node.is_alive \
                or self.network.is_parted(self.node.host, other.node.host):
            return
        data = self._waiting.popleft()
        if not data:
            other._lose(None)
            return
        while self._waiting and self._waiting[0]:
            data += self._waiting.popleft()
        data, rest = self.network.split(data)
        if rest:
            self._waiting.appendleft(rest)
        self._size -= len(data)
        other._receive(self.node, data)
        if self._is_full and self.get_write_buffer_size() <= self._low and not self.is_lost:
            self._is_full = False
            self.network.loop.call_soon(self.protocol.resume_writing, context=self.node.context)
        self.move()

    def _receive(self, sender: Node, data: bytes) -> None:
        self.network.on_delivery(sender, self.node, data)
        self.network.sender = sender
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            self._fill_buffers(memoryview(data))
        else:
            self.protocol.data_received(data)
        self.network.sender = None

    def _fill_buffers(self, rest: memoryview) -> None:
        while rest and not self.is_lost:
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            rest = rest[size:]
            self.protocol.buffer_updated(size)

    def _lose(self, error: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = self._is_closing = True
        self.network.transports.pop(self, None)
        self.protocol.connection_lost(error)


class SimulatedNetwork:
    """The network. `on_delivery` is called for all bytes that arrive."""

    def __init__(self, loop: SimulatedLoop, chance: Random, on_delivery: OnDelivery) -> None:
        self.loop = loop
        self.chance = chance
        self.on_delivery = on_delivery
        self.transports: dict[SimulatedTransport, None] = {}
        self.slowness = 1.0
        self.sender: Node | None = None
        """The node whose bytes are being received."""
        self._ports = count(_PORT_MIN)
        self._bound: dict[tuple[str, int], SimulatedSocket] = {}
        self._parted: set[tuple[str, str]] = set()
        self._dark: set[str] = set()
        loop.network = self

    # --- time and pieces ---------------------------------------------------------------------------------------------

    def latency(self) -> float:
        chance = self.chance
        return self.slowness * chance.uniform(*(_SLOW_LATENCY_S if chance.random() < _SLOW else _LATENCY_S))

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """The part of bytes written together that arrives at once, and the rest."""
        if len(data) > 1 and self.chance.random() < _SPLIT:
            size = self.chance.randrange(1, len(data))
            return data[:size], data[size:]
        return data, b""

    def later(self, transport: SimulatedTransport, deed: Callable[..., object], *args: Any) -> None:
        """Schedule a callback at the other end of the line, in the context of its node."""
        self.loop.call_later(self.latency(), deed, *args, context=transport.node.context)

    # --- places and connections --------------------------------------------------------------------------------------

    def bind(self, node: Node, port: int) -> SimulatedSocket:
        """Raises OSError when the port is taken."""
        port = port or next(self._ports)
        if (node.host, port) in self._bound:
            raise OSError(98, "Address already in use")
        self._bound[node.host, port] = bound = SimulatedSocket(self, node, port)
        return bound

    def unbind(self, bound: SimulatedSocket) -> None:
        if self._bound.get((bound.node.host, bound.port)) is bound:
            del self._bound[bound.node.host, bound.port]

    async def connect(self, node: Node, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        await asyncio.sleep(self.latency())
        while self.is_parted(node.host, host) or self.is_parted(host, node.host):
            # The connecting client gives up by its own timeout.
            await asyncio.sleep(1.0)
        bound = self._bound.get((host, port))
        if bound is None or bound.factory is None or not bound.node.is_alive:
            await asyncio.sleep(self.latency())
            raise ConnectionRefusedError(111, "Connection refused")
        address = (node.host, next(self._ports))
        here = SimulatedTransport(self, node, address, (host, port))
        there = SimulatedTransport(self, bound.node, (host, port), address)
        here.other, there.other = there, here
        here.protocol, there.protocol = factory(), bound.factory()
        self.transports[here] = self.transports[there] = None
        self.loop.call_soon(there.protocol.connection_made, there, context=bound.node.context)
        here.protocol.connection_made(here)
        try:
            await asyncio.sleep(self.latency())
        except asyncio.CancelledError:
            here.close()
            raise
        return here, here.protocol

    # --- faults ------------------------------------------------------------------------------------------------------

    def is_parted(self, sender: str, receiver: str) -> bool:
        """Whether no bytes pass from the one to the other."""
        return bool(self._dark or self._parted) and (sender in self._dark or receiver in self._dark
                                                     or (sender, receiver) in self._parted)

    def part(self, one: str, other: str, *, is_one_way: bool = False) -> None:
        """Partition two hosts. If `is_one_way`, bytes from `other` still arrive."""
        self._parted.add((one, other))
        if not is_one_way:
            self._parted.add((other, one))

    def join(self) -> None:
        """Let all hosts reach each other again; waiting bytes move on."""
        self._parted.clear()
        self._go_on()

    def darken(self, host: str) -> None:
        self._dark.add(host)

    def lighten(self, host: str) -> None:
        self._dark.discard(host)
        self._go_on()

    def cut(self, transport: SimulatedTransport) -> None:
        """End a connection on both sides, one after the other."""
        for end in (transport, transport.other):
            self.later(end, end._lose, ConnectionResetError(104, "Connection reset by peer"))

    def connections_of(self, node: Node) -> list[SimulatedTransport]:
        return [transport for transport in self.transports if transport.node is node]

    def drop(self, node: Node, *, is_silent: bool) -> None:
        """Drop a dead node; its peers are notified soon or, if `is_silent`, only when their systems give it up."""
        for place in [place for place, bound in self._bound.items() if bound.node is node]:
            del self._bound[place]
        for transport in self.connections_of(node):
            del self.transports[transport]
            transport.is_lost = True
            other = transport.other
            silence = self.chance.uniform(0, _SILENCE_MAX_S) if is_silent else self.latency()
            self.loop.call_later(silence, other._lose, ConnectionResetError(104, "Connection reset by peer"),
                                 context=other.node.context)

    def _go_on(self) -> None:
        for transport in list(self.transports):
            transport.move()
            if transport.other.is_lost and transport.other.node.is_alive:
                transport.other.move()      # it was closed while no bytes passed, and its machine sends that again
