"""A self-signed certificate, made at each start, for `tls.test.mode.enable` and for clients on the same machine.

Source: TlsHelper.buildSslContext, which uses netty's SelfSignedCertificate.
"""

import datetime
import os
import ssl
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID_DAYS = 365
_NAME = "localhost"
_ADDRESSES = ("127.0.0.1", "::1")


def load_made_up(context: ssl.SSLContext) -> None:
    """Load a new certificate. OpenSSL needs a file: it is one in memory, so that the key is on no disk, and no disk has
    to be writable."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    names = [x509.DNSName(_NAME), *[x509.IPAddress(ip_address(each)) for each in _ADDRESSES]]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number())
                   .not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
                   .add_extension(x509.SubjectAlternativeName(names), critical=False)
                   .sign(key, hashes.SHA256()))
    with os.fdopen(os.memfd_create("regulus-certificate"), "wb") as file:
        file.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                     serialization.NoEncryption()))
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
