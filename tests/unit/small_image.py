"""An image in small, as an archive that docker save writes, and in a registry over TLS."""

import hashlib
import io
import json
import ssl
import subprocess
import tarfile
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OCI = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
REPOSITORY = "kit/engine"


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class SmallImage:
    """A configuration with these labels, one layer, and the manifest of both."""

    def __init__(self, labels: dict[str, str] | None, layer: bytes = b"layer" * 1000) -> None:
        self.layer = layer
        self.config = json.dumps({"config": {"Labels": labels}}).encode()
        self.config_digest = digest_of(self.config)
        self.manifest = json.dumps(
            {
                "mediaType": OCI,
                "config": {"digest": self.config_digest, "size": len(self.config)},
                "layers": [{"digest": digest_of(layer), "size": len(layer)}],
            }
        ).encode()
        self.digest = digest_of(self.manifest)

    def save(self, file: Path, images: int = 1, blobs: bool = True) -> Path:
        """As docker save writes it; `blobs` false: as it did before Docker 25."""
        name = self.config_digest.removeprefix("sha256:")
        config = f"blobs/sha256/{name}" if blobs else f"{name}.json"
        files = {
            config: self.config,
            "layer.tar": self.layer,
            "manifest.json": json.dumps([{"Config": config}] * images).encode(),
        }
        if blobs:
            files["index.json"] = json.dumps({"manifests": [{"digest": self.digest}]}).encode()
        plain = file.with_suffix("") if file.suffix == ".zst" else file
        with tarfile.open(plain, "w") as archive:
            for path, content in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        if file != plain:
            subprocess.run(["zstd", "-q", "-f", plain, "-o", file], check=True)
        return file


@dataclass
class FakeRegistry:
    """What the registry has: path below the repository -> body; and who may read it.

    login: user:password that is asked for, empty for none. realm: where a token is fetched with
    it, empty where the login itself is sent with each request.
    """

    answers: dict[str, bytes]
    login: str = ""
    realm: bool = False
    host: str = ""
    ca: str = ""

    def offer(self, image: SmallImage, tag: str) -> None:
        self.answers |= {
            f"manifests/{tag}": image.manifest,
            f"manifests/{image.digest}": image.manifest,
            f"blobs/{image.config_digest}": image.config,
        }

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        basic = "Basic " + b64encode(self.login.encode()).decode()
        if path.startswith("/token?"):
            assert f"scope=repository%3A{REPOSITORY.replace('/', '%2F')}%3Apull" in path
            ok = authorization == basic
            return (200, {}, b'{"token": "t0ken"}') if ok else (401, {}, b"{}")
        if self.login and authorization != ("Bearer t0ken" if self.realm else basic):
            bearer = f'Bearer realm="https://{self.host}/token",service="s"'
            bearer += f',scope="repository:{REPOSITORY}:pull"'
            return 401, {"WWW-Authenticate": bearer if self.realm else "Basic"}, b"{}"
        body = self.answers.get(path.removeprefix(f"/v2/{REPOSITORY}/"))
        return (404, {}, b'{"errors": []}') if body is None else (200, {}, body)


@contextmanager
def serving(registry: FakeRegistry, folder: Path) -> Iterator[FakeRegistry]:
    """The registry on 127.0.0.1 with a certificate of its own authority."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            status, headers, body = registry.answer(
                self.path, self.headers.get("Authorization", "")
            )
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    ca, certificate = _certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.host, registry.ca = f"127.0.0.1:{server.server_port}", str(ca)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


def _certificates(folder: Path) -> tuple[Path, Path]:
    """The files of an authority, and of a server's certificate with its key."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, is_ca: bool) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
        )
        if not is_ca:
            addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
            builder = builder.add_extension(addresses, critical=False)
        made = builder.sign(ca_key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    ca_file, file = folder / "ca.crt", folder / "server.pem"
    ca_file.write_bytes(signed(ca_name, ca_key.public_key(), True))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(private + signed(name, key.public_key(), False))
    return ca_file, file
