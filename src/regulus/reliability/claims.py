"""The first gate before an effect: a key in Redis for each message, so that copies do not even ask the database.

    free  --SET NX-->  held by a token, for the lease  --effect committed-->  done, until no resend can follow
    held  --effect failed, and the token is ours-->  free            held  --the lease ends-->  free

It saves work and decides nothing: a key that is lost, or a lease that ends too early, lets a second worker begin, and
the database lets one of them commit. Needs the extra `redis`.
"""

import secrets
from collections.abc import Callable

import redis

from regulus.errors import ClaimUnavailable, ConfigError
from regulus.reliability.retry_policy import ResendPolicy

_PREFIX = "regulus:claim:"
_FREE_IF_OURS = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
_KEEP_IF_OURS = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""


class RedisClaims:
    """The claims of one consuming group. `lease_ms` has to be longer than an effect ever takes, and shorter than the
    consumer's `consume_timeout`. The client is best one that waits briefly and once: `socket_timeout=1, retry=None`."""

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
        """Raises ClaimUnavailable when Redis is away or refuses us, as for a wrong password."""
        self._ask(self._client.ping)

    def win(self, message_id: str) -> str | None:
        """Our token; None when somebody else holds the claim, or is done. Raises ClaimUnavailable."""
        token = secrets.token_hex(16)
        is_won = self._ask(self._client.set, self._prefix + message_id, token, nx=True, px=self.lease_ms)
        return token if is_won else None

    def release(self, message_id: str, token: str) -> None:
        """Let others try, unless the lease ended and somebody else holds the claim. Raises ClaimUnavailable."""
        self._ask(self._client.eval, _FREE_IF_OURS, 1, self._prefix + message_id, token)

    def finish(self, message_id: str, token: str) -> None:
        """Keep the key as long as copies may come. Raises ClaimUnavailable."""
        self._ask(self._client.eval, _KEEP_IF_OURS, 1, self._prefix + message_id, token, self._done_ms)

    def _ask(self, command: Callable[..., object], *arguments: object, **options: object) -> object:
        try:
            return command(*arguments, **options)
        except redis.RedisError as error:
            raise ClaimUnavailable(f"Redis does not answer as it should ({type(error).__name__}: {error}); look at its "
                                   "address and password") from error
