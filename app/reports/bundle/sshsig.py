"""Signatures by SSH keys, as `ssh-keygen -Y sign` makes and `ssh-keygen -Y verify` accepts them (PROTOCOL.sshsig).

Ed25519 only: the same message and key give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from app.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE: Final = "trackside-evidence"
KEY_TYPE: Final = b"ssh-ed25519"

_MAGIC: Final = b"SSHSIG"
_HASH: Final = b"sha512"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_LINE: Final = 70
_LARGEST: Final = 1 << 20


class SignatureError(ValueError):
    """A signature is none, or is not of the message."""


@dataclass(frozen=True)
class Signer:
    """Who signed.

    Attributes:
        key: the public key as one line of `authorized_keys` has it, without a comment.
        principal: who it belongs to, by a file of allowed signers; None where none was given.
    """

    key: str
    principal: str | None = None

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it."""
        digest = hashlib.sha256(base64.b64decode(self.key.split()[1])).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def read_key(path: Path) -> Ed25519PrivateKey:
    """A private key in OpenSSH's format.

    Raises:
        UsageError: it cannot be read, is encrypted, or is of another type.
    """
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}") from None
    except TypeError:
        raise UsageError(
            f"the key {path} is encrypted, and there is no prompt for its passphrase. Name another key, or write the "
            f"bundle as a folder without --sign and sign it: ssh-keygen -Y sign -n {NAMESPACE} -f {path} MANIFEST.json"
        ) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path} is no private key in OpenSSH's format: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key {path} is not of type ed25519. Make one: ssh-keygen -t ed25519 -f KEY")
    return key


def sign(message: bytes, key: Ed25519PrivateKey, namespace: str = NAMESPACE) -> bytes:
    """The armoured signature of a message."""
    signature = _string(KEY_TYPE) + _string(key.sign(_signed(message, namespace)))
    public = base64.b64decode(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    parts = (public, namespace.encode(), b"", _HASH, signature)
    blob = _MAGIC + struct.pack(">I", 1) + b"".join(map(_string, parts))
    text = base64.b64encode(blob).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join([_BEGIN, *lines, _END, ""]).encode()


def verify(message: bytes, armoured: bytes, namespace: str = NAMESPACE) -> Signer:
    """The key that signed a message.

    Raises:
        SignatureError: it is no signature, of another namespace or type, or not of this message.
    """
    public, signed_for, _, hash_name, signature = _parts(_blob(armoured))
    if signed_for != namespace.encode():
        raise SignatureError(f"it was made for {signed_for!r}, not for {namespace!r}")
    if hash_name not in {b"sha512", b"sha256"}:
        raise SignatureError(f"its digest is {hash_name!r}")
    kind, raw = _strings(public, 2)
    signed_kind, value = _strings(signature, 2)
    if (kind, signed_kind) != (KEY_TYPE, KEY_TYPE):
        raise SignatureError(f"it is of type {kind.decode(errors='replace')}; only ssh-ed25519 is checked here")
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(value, _signed(message, namespace, hash_name))
    except (InvalidSignature, ValueError):
        raise SignatureError("it is not a signature of this manifest") from None
    return Signer(f"{KEY_TYPE.decode()} {base64.b64encode(public).decode()}")


def allowed(signer: Signer, path: Path, namespace: str = NAMESPACE) -> Signer | None:
    """The signer with its name, if a file of allowed signers (`man ssh-keygen`) has the key; None if it has not.

    Lines of certificate authorities, and those that hold for some time only, are not used.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        lines = path.read_bytes()[:_LARGEST].decode(errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    for line in lines:
        found = _SIGNER.match(line.strip())
        if found is None or f"{found['type']} {found['key']}" != signer.key:
            continue
        options = found["options"] or ""
        spaces = re.search(r'namespaces="([^"]*)"', options)
        if "cert-authority" in options or "valid-" in options:
            continue
        if spaces is None or namespace in spaces[1].split(","):
            return Signer(signer.key, found["principals"])
    return None


_SIGNER: Final = re.compile(
    r"^(?P<principals>[^#\s]\S*)\s+(?:(?P<options>\S*(?:\"[^\"]*\"\S*)*)\s+)??(?P<type>ssh-ed25519)\s+(?P<key>[A-Za-z0-9+/=]+)"
)


def _signed(message: bytes, namespace: str, hash_name: bytes = _HASH) -> bytes:
    digest = hashlib.new(hash_name.decode(), message).digest()
    return _MAGIC + b"".join(map(_string, (namespace.encode(), b"", hash_name, digest)))


def _string(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _blob(armoured: bytes) -> bytes:
    text = armoured[:_LARGEST].decode("ascii", errors="replace").strip()
    if not (text.startswith(_BEGIN) and text.endswith(_END)):
        raise SignatureError("it is no SSH signature")
    try:
        blob = base64.b64decode("".join(text[len(_BEGIN) : -len(_END)].split()), validate=True)
    except ValueError:
        raise SignatureError("it is no SSH signature") from None
    if not blob.startswith(_MAGIC + struct.pack(">I", 1)):
        raise SignatureError("it is no SSH signature of version 1")
    return blob[len(_MAGIC) + 4 :]


def _parts(blob: bytes) -> list[bytes]:
    return _strings(blob, 5)


def _strings(blob: bytes, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        if len(blob) < 4 or len(blob) - 4 < (size := int.from_bytes(blob[:4], "big")):
            raise SignatureError("it is cut")
        found.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    if blob:
        raise SignatureError("it has surplus bytes")
    return found
