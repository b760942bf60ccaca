"""Whether a request was signed with a secret. Takes the same time for each signature that is wrong.

A signature says who wrote the request and that nobody changed its fields and body. It says nothing of when: whoever
copies a signed frame may send it again, as with RocketMQ, and only TLS keeps others from copying it.

Source: AclUtils.combineRequestContent, AclSigner.calSignature, PlainAccessValidator.parse.
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
    made = hmac.new(secret_key.encode(), signed_content(ext, UNIQUE_KEY_QUERY), sha1)
    made.update(body)
    return hmac.compare_digest(b64encode(made.digest()), given.encode())
