"""The signature of a request: base64 of HMAC-SHA1 over the values of its ext fields, ordered by name, and its body.

Source: AclUtils.combineRequestContent, AclSigner.calSignature.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping

from regulus.wire.remoting_command import RemotingCommand

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
DENIAL = "org.apache.rocketmq.acl.common.AclException: "
"""The beginning of the remark of a SYSTEM_ERROR that denies access. Source: AclException, RemotingHelper."""


def signature(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request. All ext fields, with the access key, must be set."""
    return b64encode(hmac.digest(secret_key.encode(), signed_content(ext) + body, "sha1")).decode()


def sign(command: RemotingCommand, access_key: str, secret_key: str) -> None:
    """Sign a command. All other fields must be set before, because the signature covers them."""
    ext = {**command.ext, ACCESS_KEY: access_key}
    ext.pop(SIGNATURE, None)
    ext[SIGNATURE] = signature(ext, command.body, secret_key)
    command.ext = ext


def signed_content(ext: Mapping[str, str], left_out: str = SIGNATURE) -> bytes:
    """The signed part of a request before its body: all ext fields except the signature and the field `left_out`."""
    # For ASCII texts Java's order is ours.
    names = sorted(ext) if "".join(ext).isascii() else sorted(ext, key=_as_java_sorts)
    names = [name for name in names if name != SIGNATURE and name != left_out]
    # Java writes an unpaired surrogate, which JSON may contain, as a question mark.
    return "".join([ext[name] for name in names]).encode("utf-8", "replace")


def _as_java_sorts(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
