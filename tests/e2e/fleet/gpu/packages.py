"""A package repository with the stand-in for the container toolkit, signed by a key of its own."""

import hashlib
import tempfile
from pathlib import Path

from tests.e2e.fleet.build import run

_FILE = "toolkit.deb"
_TOOLKIT = Path(__file__).parent / "toolkit"


def make_repository(folder: Path) -> Path:
    """Write the repository into `folder`; gives the file of its key."""
    folder.mkdir()
    package = folder / _FILE
    run("dpkg-deb", "--root-owner-group", "--build", str(_TOOLKIT), str(package))
    control = (_TOOLKIT / "DEBIAN" / "control").read_text()
    index = folder / "Packages"
    index.write_text(f"{control}Filename: ./{_FILE}\n{_summed(package)}")
    release = f"Date: Sat, 01 Jan 2000 00:00:00 UTC\nSHA256:\n {_line(index)}\n"
    key = folder / "key.asc"
    # Short: the socket of gpg's agent lies in it.
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        gpg = ("gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", "")
        run(*gpg, "--quick-generate-key", "fleet", "ed25519", "sign", "never")
        (folder / "InRelease").write_text(run(*gpg, "--clearsign", stdin=release) + "\n")
        key.write_text(run(*gpg, "--armor", "--export") + "\n")
        run("gpgconf", "--homedir", home, "--kill", "all")
    return key


def _summed(file: Path) -> str:
    digest, size, _ = _line(file).split()
    return f"Size: {size}\nSHA256: {digest}\n"


def _line(file: Path) -> str:
    """Sum, size and name, as a Release file has them."""
    content = file.read_bytes()
    return f"{hashlib.sha256(content).hexdigest()} {len(content)} {file.name}"
