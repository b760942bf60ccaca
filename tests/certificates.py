"""Certificates for servers and clients of tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate


class Pair(NamedTuple):
    """The files of a certificate and of its key, in PEM."""

    certificate: Path
    key: Path


def make_certificate(directory: Path) -> Pair:
    """Of 127.0.0.1, signed by itself."""
    return Authority(directory).pair


class Authority:
    """Signs certificates of others; its own, of 127.0.0.1, is `pair`."""

    def __init__(self, directory: Path, name: str = "regulus tests") -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.pair = _write(directory, "certificate", self._sign(name, "127.0.0.1", self._key, True, 1), self._key)

    def issue(self, file: str, address: str = "127.0.0.1", days: int = 1, password: str = "") -> Pair:
        """A certificate for an IPv4 address, for that many days from now; written once more where it is there."""
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        return _write(self._directory, file, self._sign(file, address, key, False, days), key, password)

    def _sign(self, subject: str, address: str, key: "EllipticCurvePrivateKey", is_authority: bool,
              days: int) -> "Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        def name(text: str) -> Any:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        return (x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(self._name))
                .public_key(key.public_key()).serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(days=9)).not_valid_after(now + timedelta(days=days))
                .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(address))]), critical=False)
                .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None),
                               critical=True)
                .sign(self._key, hashes.SHA256()))


def _write(directory: Path, file: str, certificate: "Certificate", key: "EllipticCurvePrivateKey",
           password: str = "") -> Pair:
    from cryptography.hazmat.primitives import serialization

    encryption = (serialization.BestAvailableEncryption(password.encode()) if password
                  else serialization.NoEncryption())
    pair = Pair(directory / f"{file}.pem", directory / ("key.pem" if file == "certificate" else f"{file}-key.pem"))
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return pair
