"""Whether a request was signed with a secret. Takes the same time for each signature that is wrong.

A signature says that somebody who knows the secret once signed these values, in this order of their names, and this
body. It covers neither the request's code nor the names of its fields nor where one value ends and the next begins, and
has no time in it: whoever can copy a signed frame may send it again, and also as another request with the same values.
So it is with RocketMQ, whose clients sign so, and only TLS keeps others from copying.

Source: AclUtils.combineRequestContent, AclSigner.calSignature, DefaultAuthenticationContextBuilder.build.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha1

from regulus.access.decision import UNIQUE_KEY_QUERY
from regulus.wire.acl_signature import SIGNATURE, signed_content

SIGNATURE_SIZE = 28
"""Characters of a signature: base64 of 20 bytes."""


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
