"""What a registry has under a tag, by the OCI distribution API."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

import requests

from dflash_kit.errors import InputError

_IMAGES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_PLATFORM = ("linux", "amd64")
_SECONDS = 30
_REPOSITORY = re.compile(r"(?P<host>[^/@\s]+[.:][^/@\s]+|localhost)/(?P<name>[a-z0-9._/-]+)")
_REASON = re.compile(r"certificate verify failed: ([^('\"]+)")


@dataclass(frozen=True)
class Manifest:
    """The manifest of one linux/amd64 image, and the digest of its bytes."""

    content: dict[str, Any]
    digest: str


class _Bearer(requests.auth.AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Registry:
    """One repository of a registry, read over TLS; every failure is an InputError of one line."""

    def __init__(self, repository: str, username: str, password: str, ca: str) -> None:
        parts = _REPOSITORY.fullmatch(repository)
        if parts is None:
            raise InputError(f"image_registry: got {repository!r}, wanted HOST[:PORT]/NAME")
        if ca and not Path(ca).is_file():
            raise InputError(f"image_registry_ca: got {ca!r}, which is no file")
        self._host = parts["host"]
        self._name = parts["name"]
        self._ca = ca
        self._login = (username, password) if username else None
        self._auth: tuple[str, str] | _Bearer | None = self._login

    def manifest(self, tag: str) -> Manifest:
        """The image under `tag`, also where the tag is an index with one image of our platform."""
        answer = self._get(f"manifests/{tag}", (*_IMAGES, *_INDEXES))
        if answer.status_code == requests.codes.not_found:
            raise InputError(f"{self}: tag {tag}: got none, wanted one; {self._tags()}")
        content = self._content(answer)
        if content.get("mediaType", answer.headers.get("Content-Type")) in _INDEXES:
            digest = self._only_image(tag, content)
            answer = self._get(f"manifests/{digest}", _IMAGES)
            content = self._content(answer)
        digest = "sha256:" + hashlib.sha256(answer.content).hexdigest()
        if not {"config", "layers"} <= content.keys():
            raise InputError(f"{self}: tag {tag}: got no container image, wanted an engine")
        return Manifest(content, digest)

    def blob(self, digest: str) -> bytes:
        """The bytes of a small blob; the caller compares them with their digest."""
        answer = self._get(f"blobs/{digest}", ())
        if answer.status_code != requests.codes.ok:
            raise InputError(f"{self}: {digest}: got HTTP {answer.status_code}, wanted the blob")
        return answer.content

    def __str__(self) -> str:
        return f"registry {self._host}/{self._name}"

    def _only_image(self, tag: str, index: dict[str, Any]) -> str:
        platforms = {
            entry["digest"]: (entry["platform"]["os"], entry["platform"]["architecture"])
            for entry in index["manifests"]
            if "platform" in entry
        }
        digests = [digest for digest, platform in platforms.items() if platform == _PLATFORM]
        if len(digests) != 1:
            got = ", ".join("/".join(platform) for platform in platforms.values()) or "none"
            raise InputError(f"{self}: tag {tag}: got {got}, wanted one {'/'.join(_PLATFORM)}")
        return str(digests[0])

    def _tags(self) -> str:
        answer = self._get("tags/list", ())
        if answer.status_code == requests.codes.not_found:
            return "the registry has no such repository"
        tags = self._content(answer).get("tags") or []
        return f"there are: {', '.join(sorted(tags)) or 'none'}"

    def _content(self, answer: requests.Response) -> dict[str, Any]:
        try:
            answer.raise_for_status()
            content = answer.json()
        except (requests.HTTPError, ValueError):
            raise InputError(
                f"{self}: got HTTP {answer.status_code} {answer.text[:80]!r}, "
                "wanted a registry's answer"
            ) from None
        if not isinstance(content, dict):
            raise InputError(f"{self}: got {json.dumps(content)[:80]}, wanted a registry's answer")
        return content

    def _get(self, path: str, accept: tuple[str, ...]) -> requests.Response:
        """The answer for a path below the repository; a token is fetched where it is asked for."""
        url = f"https://{self._host}/v2/{self._name}/{path}"
        headers = {"Accept": ", ".join(accept) or "*/*"}
        answer = self._ask(url, headers)
        kind, _, challenge = answer.headers.get("WWW-Authenticate", "").partition(" ")
        if answer.status_code == requests.codes.unauthorized and kind.lower() == "bearer":
            self._auth = _Bearer(self._token(parse_keqv_list(parse_http_list(challenge))))
            answer = self._ask(url, headers)
        if answer.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
            self._refused()
        return answer

    def _token(self, challenge: dict[str, str]) -> str:
        parameters: dict[str, str] = {
            key: challenge[key] for key in ("service", "scope") if key in challenge
        }
        self._auth = self._login
        answer = self._ask(challenge.get("realm", ""), {}, parameters)
        if not answer.ok:
            self._refused()
        content = self._content(answer)
        return str(content.get("token") or content.get("access_token"))

    def _refused(self) -> None:
        got = f"user {self._login[0]!r} refused" if self._login else "a login asked for"
        raise InputError(
            f"{self}: {got}; next: correct image_registry_username and image_registry_password"
        )

    def _ask(
        self, url: str, headers: dict[str, str], parameters: Mapping[str, str] | None = None
    ) -> requests.Response:
        try:
            # `verify` here and not in a session: there REQUESTS_CA_BUNDLE would win over it.
            return requests.get(
                url,
                params=parameters,
                headers=headers,
                auth=self._auth,
                verify=self._ca or True,
                timeout=_SECONDS,
            )
        except requests.exceptions.SSLError as error:
            reason = _REASON.search(str(error))
            got = reason[1].strip() if reason else " ".join(str(error).split())
            raise InputError(
                f"{self}: TLS: got {got!r}, wanted a certificate that "
                f"{self._ca or 'an authority of this machine'} signed; next: set image_registry_ca"
            ) from None
        except (requests.RequestException, OSError) as error:
            raise InputError(
                f"{self}: cannot be reached: {_innermost(error)}; next: try it from this machine"
            ) from None


def _innermost(error: BaseException) -> str:
    """`Connection refused` out of what requests and urllib3 wrap around it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        error, cause = cause, cause.__cause__ or cause.__context__
    return type(error).__name__
