"""Login by OpenID Connect: authorization code with PKCE, state and nonce (RFC 6749, 7636; OpenID Connect Core 1.0).

Authlib makes the requests, and joserfc, by the same authors, checks the signature of ID tokens. They are imported
when a user logs in, and by nothing else.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from app.access.people import is_name, person_of
from app.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from app.access.people import Person
    from app.config.access import Access

SECRET = "TRACKSIDE_OIDC_SECRET"  # noqa: S105 - the name of a variable
"""The environment variable with the client's secret."""

TIMEOUT_S: Final = 10.0
"""Longest wait for the provider."""

METADATA_S: Final = 3600.0
"""The provider's addresses and keys are read again after this long, and where a key is unknown."""

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are believed: those with a public key. `none`, and those with the client's secret, are not."""

LEEWAY_S: Final = 60
"""How far the provider's clock may be from ours."""


class LoginError(Exception):
    """The login failed; the message is for the person who tried, and holds no secret."""


def secret_of(access: Access) -> str:
    """The client's secret: from its file, else from the environment; empty for a client without one.

    Raises:
        ConfigError: the file cannot be read.
    """
    return read_secret(access.client_secret_file, "client_secret_file") or os.environ.get(SECRET, "").strip()


def read_secret(file: Path | None, setting: str) -> str:
    """A secret in a file; empty where no file is named.

    Raises:
        ConfigError: the file cannot be read, or is empty.
    """
    if file is None:
        return ""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"access.{setting}: {file} cannot be read: {reason}") from None
    if not text or not text.isprintable():
        raise ConfigError(f"access.{setting}: {file} has no secret in one line")
    return text


class Provider:
    """The OpenID provider.

    Args:
        access: where it is, and what it calls us.
        secret: the client's secret; empty for a client without one.
    """

    def __init__(self, access: Access, secret: str) -> None:
        self.access = access
        self.callback = f"{access.url}/login/callback"
        self._secret = secret
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Provider({self.access.issuer!r})"

    def address(self, state: str, nonce: str, verifier: str) -> str:
        """Address that the browser opens to log in.

        Raises:
            LoginError: there is no valid response from the provider.
        """
        with self._session() as session:
            url, _ = session.create_authorization_url(
                self._endpoint("authorization_endpoint"), state=state, nonce=nonce, code_verifier=verifier
            )
        return str(url)

    def person(self, code: str, nonce: str, verifier: str) -> tuple[Person, str]:
        """The user who has logged in, and the ID token of the login.

        Raises:
            LoginError: the code, the token or its claims are not what they should be.
        """
        import requests
        from authlib.common.errors import AuthlibBaseError

        try:
            with self._session() as session:
                token = session.fetch_token(
                    self._endpoint("token_endpoint"), grant_type="authorization_code", code=code,
                    code_verifier=verifier, timeout=TIMEOUT_S,
                )  # fmt: skip
                raw = str(token.get("id_token") or "")
                claims = self._claims(raw, nonce, str(token.get("access_token") or ""))
                claims = self._completed(session, claims)
        except (requests.RequestException, AuthlibBaseError, ValueError) as error:
            raise LoginError(f"the provider did not confirm the login ({type(error).__name__})") from None
        return self._person(claims), raw

    def end_session_address(self, id_token: str) -> str:
        """Address that ends the provider's own session; empty if the provider has none."""
        from authlib.common.urls import add_params_to_uri

        try:
            address = str(self._read_metadata().get("end_session_endpoint") or "")
        except LoginError:
            return ""
        if not address.startswith(("https://", "http://")):
            return ""
        params = {"client_id": self.access.client_id} | ({"id_token_hint": id_token} if id_token else {})
        return str(add_params_to_uri(address, list(params.items())))

    # The provider's responses ---------------------------------------------------------------------------------------

    def _session(self) -> Any:  # noqa: ANN401 - Authlib has no types
        from authlib.integrations.requests_client import OAuth2Session

        made = OAuth2Session(
            self.access.client_id, self._secret or None, scope=" ".join(self.access.scopes),
            redirect_uri=self.callback, code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_basic" if self._secret else "none",
        )  # fmt: skip
        made.trust_env = False  # no password of ~/.netrc goes to the provider
        return made

    def _endpoint(self, name: str) -> str:
        address = str(self._read_metadata().get(name) or "")
        if not address.startswith("https://") and not self.access.issuer.startswith("http://"):
            raise LoginError(f"the provider's {name} is not encrypted")
        return address

    def _read_metadata(self) -> dict[str, Any]:
        with self._lock:
            if self._metadata is None or time.monotonic() - self._metadata[0] > METADATA_S:
                found = _json(f"{self.access.issuer}/.well-known/openid-configuration")
                if str(found.get("issuer", "")).rstrip("/") != self.access.issuer:
                    raise LoginError("the provider calls itself by another address than `issuer` in [access]")
                self._metadata, self._keys = (time.monotonic(), found), None
            return self._metadata[1]

    def _read_keys(self, *, again: bool = False) -> Any:  # noqa: ANN401 - joserfc checks it
        address = self._endpoint("jwks_uri")
        with self._lock:
            if self._keys is None or again:
                self._keys = _json(address)
            return self._keys

    def _claims(self, id_token: str, nonce: str, access_token: str) -> dict[str, Any]:
        """The claims of an ID token whose signature, issuer, audience, times and nonce are right."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jwk import KeySet
        from joserfc.jws import JWSRegistry

        registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        options = {
            "iss": {"essential": True, "value": str(self._read_metadata()["issuer"])},
            "aud": {"essential": True, "value": self.access.client_id},
            "nonce": {"essential": True, "value": nonce},
            "exp": {"essential": True},
        }
        known = {"nonce": nonce, "client_id": self.access.client_id, "access_token": access_token}
        try:
            try:
                token = jwt.decode(id_token, KeySet.import_key_set(self._read_keys()), registry=registry)
            except InvalidKeyIdError:  # the provider has a new key
                token = jwt.decode(id_token, KeySet.import_key_set(self._read_keys(again=True)), registry=registry)
            claims = CodeIDToken(token.claims, token.header, options, known)
            claims.validate(leeway=LEEWAY_S)
        except JoseError as error:
            raise LoginError(f"the ID token is not the provider's for this login ({type(error).__name__})") from None
        return dict(claims)

    def _completed(self, session: Any, claims: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - Authlib's
        """The claims, with those of the userinfo endpoint where the ID token lacks name or groups."""
        if self.access.user_claim in claims and self.access.groups_claim in claims:
            return claims
        if not self._read_metadata().get("userinfo_endpoint"):
            return claims
        more = session.get(self._endpoint("userinfo_endpoint"), timeout=TIMEOUT_S).json()
        if not isinstance(more, dict) or more.get("sub") != claims["sub"]:
            raise LoginError("the provider's userinfo is about another user than the login")
        return more | claims

    def _person(self, claims: Mapping[str, Any]) -> Person:
        name = claims.get(self.access.user_claim)
        if not isinstance(name, str) or not is_name(name):
            raise LoginError(f"the login has no usable name in the claim {self.access.user_claim!r}")
        if self.access.user_claim == "email" and claims.get("email_verified") is not True:
            raise LoginError("the provider has not verified that address")
        groups = claims.get(self.access.groups_claim) or []
        groups = [groups] if isinstance(groups, str) else groups
        named = [each for each in groups if isinstance(each, str)] if isinstance(groups, list) else []
        return person_of(self.access, name, named)


def _json(url: str) -> dict[str, Any]:
    """A document of the provider."""
    import requests

    try:
        answer = requests.get(url, timeout=TIMEOUT_S, allow_redirects=False)
        answer.raise_for_status()
        found = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise LoginError(f"no valid response from the OpenID provider ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise LoginError("no valid response from the OpenID provider")
    return found


def new_value() -> str:
    """A random value: a state, a nonce, a verifier."""
    return secrets.token_urlsafe(48)
