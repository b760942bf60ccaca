"""The signature of a request: base64 of HMAC-SHA1 over the values of its ext fields, ordered by name, and its body.

Source: AclUtils.combineRequestContent, AclSigner.calSignature.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"


def signature(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request whose ext fields, with the access key, are all set."""
    names = sorted((name for name in ext if name != SIGNATURE), key=lambda name: name.encode("utf-16-be"))
    content = "".join([ext[name] for name in names]).encode() + body
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
