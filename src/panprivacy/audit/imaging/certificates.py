"""A certificate that nobody has signed, for a service that is audited with TLS."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

_HOURS = 1


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a new certificate and its key; return where they are."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=_HOURS))
        .not_valid_after(now + timedelta(hours=_HOURS))
        .sign(key, hashes.SHA256())
    )
    written, secret = folder / "certificate.pem", folder / "key.pem"
    written.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return written, secret
