"""Check whether a request was signed with a secret; the check takes the same time for each wrong signature.

A signature proves that a holder of the secret once signed these values, in the order of their names, and this body. It
does not cover the request's code, the names of its fields, or where one value ends and the next begins, and it contains
no time. An attacker that can copy a signed frame may send it again, even as another request with the same values.
RocketMQ's clients sign this way; only TLS prevents copying.

Source: AclUtils.combineRequestContent, AclSigner.calSignature, DefaultAuthenticationContextBuilder.build.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha1

from regulus.access.decision import UNIQUE_KEY_QUERY
from regulus.wire.acl_signature import SIGNATURE, signed_content

SIGNATURE_SIZE = 28
"""The number of characters of a signature: base64 of 20 bytes."""


def is_signed(ext: Mapping[str, str], body: bytes | memoryview, secret_key: str) -> bool:
    given = ext.get(SIGNATURE, "")
    if len(given) != SIGNATURE_SIZE or not given.isascii():
        return False
    return _is_digest(given, signed_content(ext), body, secret_key) or (
        UNIQUE_KEY_QUERY in ext and _is_digest(given, signed_content(ext, UNIQUE_KEY_QUERY), body, secret_key))


def _is_digest(given: str, content: bytes, body: bytes | memoryview, secret_key: str) -> bool:
    made = hmac.new(secret_key.encode(), content, sha1)
    made.update(body)
    return hmac.compare_digest(b64encode(made.digest()), given.encode())
