"""The first gate before an effect: a key in Redis for each message, so that copies do not disturb the worker that has
it.

    free  --SET NX-->  held by a token, for the lease  --effect committed-->  done, until no resend can follow
    held  --effect failed, and the token is ours-->  free            held  --the lease ends-->  free

It saves work and decides nothing: a lost key, or a lease that ends too early, lets a second worker begin, and the
database lets one of them commit. Even if a key says done, the database is asked again, because it may have lost the
effect in a crash or a failover. Needs the extra `redis`.
"""

from collections.abc import Callable

import redis

from regulus.errors import ClaimUnavailable, ConfigError
from regulus.reliability.retry_policy import ResendPolicy

_PREFIX = "regulus:claim:"
_DONE = "done"
"""Not a token: those are numbers of 32 digits."""
_WIN = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0
"""
_FREE_IF_OURS = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
_DONE_IF_OURS = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 0
"""
_IS_DONE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0
"""


class RedisClaims:
    """The claims of one consuming group. `lease_ms` must be longer than any effect takes, and shorter than the
    consumer's `consume_timeout`. The client should wait briefly and only once: `socket_timeout=1, retry=None`."""

    def __init__(self, client: "redis.Redis", group: str, *, lease_ms: int = 300_000,
                 policy: ResendPolicy | None = None) -> None:
        """Raises ConfigError."""
        if lease_ms < 1:
            raise ConfigError(f"lease_ms is {lease_ms}; it must be 1 or more")
        policy = policy or ResendPolicy()
        if lease_ms > policy.lease_ms:
            raise ConfigError(f"lease_ms is {lease_ms}, and the policy's {policy.lease_ms}: resends would not wait for "
                              "the end of a claim; give claims and relay a ResendPolicy with lease_ms and stale_ms "
                              "that are longer")
        self._client = client
        self._prefix = f"{_PREFIX}{group}:"
        self.lease_ms = lease_ms
        self._done_ms = policy.horizon_ms + lease_ms

    def check(self) -> None:
        """Raises ClaimUnavailable when Redis does not answer or refuses us, for example because of a wrong password."""
        self._ask(self._client.ping)

    def win(self, message_id: str, token: str) -> bool:
        """Whether this token holds the claim; False when another worker holds it, or the message is done.

        When this raises ClaimUnavailable, the token may hold the claim all the same, because the answer may be late or
        lost. A client that repeats the request finds its own token.
        """
        return self._ask(self._client.eval, _WIN, 1, self._prefix + message_id, token, self.lease_ms) == 1

    def is_done(self, message_id: str) -> bool:
        """Whether a worker finished it, which only the database knows for certain. Raises ClaimUnavailable."""
        return self._ask(self._client.eval, _IS_DONE, 1, self._prefix + message_id, _DONE) == 1

    def release(self, message_id: str, token: str) -> None:
        """Let others try, unless the lease ended and another worker holds the claim. Raises ClaimUnavailable."""
        self._ask(self._client.eval, _FREE_IF_OURS, 1, self._prefix + message_id, token)

    def finish(self, message_id: str, token: str) -> None:
        """Remember that it is done, as long as copies may arrive. Raises ClaimUnavailable."""
        self._ask(self._client.eval, _DONE_IF_OURS, 1, self._prefix + message_id, token, _DONE, self._done_ms)

    def _ask(self, command: Callable[..., object], *arguments: object, **options: object) -> object:
        try:
            return command(*arguments, **options)
        except redis.RedisError as error:
            raise ClaimUnavailable(f"Redis does not answer as it should ({type(error).__name__}: {error}); look at its "
                                   "address and password") from error
