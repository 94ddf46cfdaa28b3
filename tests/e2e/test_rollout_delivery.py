"""The way of an image to its hosts: what arrives, what is refused, and what is left behind."""

import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dflash_kit.rollout.images import Image, from_archive, from_docker, from_registry
from tests.e2e.fleet.build import HERE, run
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.host import Host
from tests.e2e.fleet.play import Play
from tests.e2e.fleet.releases import VARIANT, build_small, offer_small
from tests.e2e.node import ROOT, lock

OLD, NEW = "0.5.11-dflash.1", "0.5.11-dflash.2"
WHOLE = lock()["release"]  # the one whose real image is there
UNTOUCHED = "the running engine was not touched"
# What stands for a running engine: any container that would notice a restart of Docker.
ENGINE = (
    "tar --create --dereference /usr/bin/sleep /lib64/ld-linux-x86-64.so.2 "
    "/lib/x86_64-linux-gnu/libc.so.6 2>/dev/null | docker import - running:1 && "
    "docker run --detach --name engine running:1 /usr/bin/sleep infinity"
)


class Delivery:
    """Deliveries to one host, or both, of images that hold no engine."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self._folder = folder
        repository = {offer_small(fleet.registry, release) for release in (OLD, NEW)}
        self.repository = repository.pop()

    def image(self, release: str) -> Image:
        username, password = self.login
        ca = str(self.fleet.registry.ca)
        return from_registry(
            self.repository, release, VARIANT, username=username, password=password, ca=ca
        )

    @property
    def login(self) -> tuple[str, str]:
        return next(iter(self.fleet.registry.logins.items()))

    def archive(self, release: str) -> Path:
        file = self._folder / f"{release}.tar.zst"
        if not file.exists():
            run("bash", "-c", f"docker save {build_small(release)} | zstd -q -o {file}")
        return file

    def to(self, hosts: str, image: Image, *arguments: str, **variables: object) -> Play:
        inventory = self.fleet.inventory(self._folder, **variables)
        return self.fleet.play(
            HERE / "deliver.yml",
            inventory,
            "--limit",
            hosts,
            *arguments,
            image_wanted=asdict(image),
        )

    def refused(self, host: Host, image: Image, *arguments: str, **variables: object) -> str:
        """The one message of a delivery that fails; asserts that the host is as it was."""
        before = host.listing()
        play = self.to(host.name, image, *arguments, **variables)
        assert play.rc != 0 and play.failed[host.name] == 1
        assert host.listing() == before
        said = re.findall(rf"^\[ERROR\].*({host.name}: image .*{UNTOUCHED})$", play.out, re.M)
        assert len(said) == 1, play.out
        return str(said[0])


@pytest.fixture(scope="module")
def delivery(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Delivery:
    return Delivery(fleet, tmp_path_factory.mktemp("delivery"))


@pytest.fixture
def hosts(delivery: Delivery) -> Iterator[dict[str, Host]]:
    """Both hosts, without images of the kit, each with a container that runs."""
    for host in delivery.fleet.hosts.values():
        host.bare()
        host.run(ENGINE)
    yield delivery.fleet.hosts


def tags(host: Host) -> list[str]:
    listed = host.run("docker image ls --format '{{.Repository}}:{{.Tag}}' dflash-kit/engine")
    return sorted(listed.split())


def test_from_a_registry_to_both_hosts(delivery: Delivery, hosts: dict[str, Host]) -> None:
    old, new = delivery.image(OLD), delivery.image(NEW)
    running = {host.name: host.run("docker inspect engine") for host in hosts.values()}
    registry = delivery.fleet.registry

    play = delivery.to("all", old)
    assert play.rc == 0, play.out
    assert all(tags(host) == [old.tag] for host in hosts.values())
    first = len(registry.fetched())

    again = delivery.to("all", old)
    assert again.rc == 0 and set(again.changed.values()) == {0}, again.out
    assert len(registry.fetched()) == first

    upgrade = delivery.to("all", new)
    assert upgrade.rc == 0, upgrade.out
    moved = [size for _, _, size in registry.fetched()[first:]]
    # Of each host's two layers only the small one, beside the configuration.
    assert len(moved) == 2 * 2 and max(moved) < 30_000, moved
    assert all(tags(host) == sorted([old.tag, new.tag]) for host in hosts.values())

    for host in hosts.values():
        assert host.run("docker inspect engine") == running[host.name]
        assert host.run(f"docker image inspect --format '{{{{.Id}}}}' {new.tag}") in new.ids
        assert host.run("ls /opt/dflash-kit") == ""


def test_a_dry_run_says_what_would_come_and_touches_nothing(
    delivery: Delivery, hosts: dict[str, Host]
) -> None:
    image, before = delivery.image(OLD), hosts["host1"].listing()
    play = delivery.to("host1", image, "--check", "--diff")
    assert play.rc == 0 and play.changed["host1"] > 0, play.out
    assert f"{image.tag} would come from {image.reference}" in play.out
    assert hosts["host1"].listing() == before


def test_the_password_is_seen_nowhere_and_nothing_of_it_is_left(
    delivery: Delivery, hosts: dict[str, Host]
) -> None:
    user, password = delivery.login
    encoded = b64encode(f"{user}:{password}".encode()).decode()
    # Of a delivery that was killed.
    left = "/opt/dflash-kit/delivery"
    hosts["host1"].run(f"mkdir -p {left} && echo {password} > {left}/config.json")
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        # Hosts are containers, so their processes are among this machine's.
        while not over.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(file.read_bytes().decode(errors="replace"))
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    play = delivery.to("host1", delivery.image(OLD), "--diff", "-vvv")
    over.set()
    watcher.join()
    assert play.rc == 0, play.out
    assert any("ansible-playbook" in line for line in seen)
    assert not [line for line in seen if password in line or encoded in line]
    assert password not in play.out and encoded not in play.out
    where = "/opt /root /tmp /etc /run /var/log"
    assert hosts["host1"].run(f"grep -rlFe {password} -e {encoded} {where} || true") == ""
    assert hosts["host1"].run("ls /opt/dflash-kit") == ""


def test_an_archive_is_loaded(delivery: Delivery, hosts: dict[str, Host]) -> None:
    image = from_archive(delivery.archive(OLD), OLD, VARIANT)
    play = delivery.to("host1", image)
    assert play.rc == 0, play.out
    assert image.tag in tags(hosts["host1"])
    assert hosts["host1"].run("ls /opt/dflash-kit") == ""
    assert delivery.image(OLD).tag == image.tag
    assert delivery.to("host1", delivery.image(OLD)).changed == {"host1": 0}


def test_what_is_wrong_with_an_archive_is_told(delivery: Delivery, hosts: dict[str, Host]) -> None:
    host = hosts["host1"]
    host.run("mkdir -p /opt/dflash-kit")
    image = from_archive(delivery.archive(OLD), OLD, VARIANT)
    message = delivery.refused(host, replace(image, sha256="0" * 64))
    assert f"sha256 on the host: got {image.sha256}, wanted {'0' * 64}; next: " in message

    whole = Path(image.reference)
    cut = whole.with_name("cut.tar.zst")
    cut.write_bytes(whole.read_bytes()[:-100_000])
    sha256 = run("sha256sum", str(cut)).split()[0]
    message = delivery.refused(host, replace(image, reference=str(cut), sha256=sha256))
    assert "unexpected EOF" in message and f"wanted {cut}" in message

    other = from_archive(delivery.archive(NEW), NEW, VARIANT)
    message = delivery.refused(host, replace(other, ids=image.ids))
    assert f"got an image with another digest, wanted {image.ids[0]}" in message


def test_what_is_wrong_with_a_registry_is_told(delivery: Delivery, hosts: dict[str, Host]) -> None:
    host, image = hosts["host1"], delivery.image(OLD)
    # The authority of the registry is no secret and stays.
    ca = f"/etc/docker/certs.d/{delivery.fleet.registry.host}/ca.crt"
    content = delivery.fleet.registry.ca.read_text().strip()
    host.run(f"mkdir /opt/dflash-kit && install -D -m 0644 /dev/stdin {ca} <<< '{content}'")

    message = delivery.refused(host, image, image_registry_password="wrong")
    assert "401 Unauthorized" in message and "correct image_registry_username" in message

    nowhere = image.reference.replace(image.ids[1], "sha256:" + "0" * 64)
    message = delivery.refused(host, replace(image, reference=nowhere))
    assert "manifest unknown" in message and f"wanted {nowhere}" in message

    message = delivery.refused(host, replace(delivery.image(NEW), ids=image.ids))
    assert f"got an image with another digest, wanted {image.ids[0]}" in message

    address = delivery.fleet.registry.host.partition(":")[0]
    host.run(f"iptables -I OUTPUT -d {address} -j REJECT")
    message = delivery.refused(host, image)
    host.run(f"iptables -D OUTPUT -d {address} -j REJECT")
    assert "connection refused" in message and "the way from the host to the registry" in message


def test_space_is_looked_at_first(delivery: Delivery, hosts: dict[str, Host]) -> None:
    host = hosts["host1"]
    host.run("mkdir -p /opt/dflash-kit")
    message = delivery.refused(host, delivery.image(OLD), image_space_spare=10**15)
    assert "space in /var/lib/docker: got " in message
    assert "wanted 1000000.0 GB" in message and "next: free some" in message


@pytest.fixture
def small(delivery: Delivery) -> Iterator[Host]:
    """A host with 3 MB left for images, and a container that runs."""
    host = delivery.fleet.add_host("small", tmpfs={"/var/lib/docker": "size=40m"})
    host.run(f"{ENGINE} && mkdir -p /opt/dflash-kit")
    host.run(
        "fallocate -l $(($(df --output=avail -B1 /var/lib/docker | tail -1) - 3000000)) "
        "/var/lib/docker/full"
    )
    yield host
    delivery.fleet.remove_host("small")


def test_a_disk_that_fills_up_is_told(delivery: Delivery, small: Host) -> None:
    image = replace(from_archive(delivery.archive(OLD), OLD, VARIANT), bytes=1)
    for _ in range(3):  # Docker itself once ended at one of them
        message = delivery.refused(small, image, image_space_spare=0)
        assert "no space left on device" in message
        assert "next: free space on /var/lib/docker" in message


def test_an_archive_needs_zstd_on_the_host(delivery: Delivery, hosts: dict[str, Host]) -> None:
    host = hosts["host1"]
    host.run("mkdir -p /opt/dflash-kit && mv /usr/bin/zstd /usr/bin/zstd.away")
    try:
        message = delivery.refused(host, from_archive(delivery.archive(OLD), OLD, VARIANT))
    finally:
        host.run("mv /usr/bin/zstd.away /usr/bin/zstd")
    assert "zstd: got none on the host, wanted it installed; next: apt-get install zstd" in message


def test_old_images_go_and_needed_ones_stay(delivery: Delivery, hosts: dict[str, Host]) -> None:
    host = hosts["host1"]

    def tag(number: int) -> str:
        return f"dflash-kit/engine:0.5.11-dflash.1-cpu-{number:012x}"

    pulled = delivery.image(NEW)
    assert delivery.to("host1", pulled).rc == 0
    for number in range(1, 8):
        host.run(
            f"docker image tag $(echo {number} > /tmp/n && tar -cC /tmp n | docker import - ) "
            f"{tag(number)} && sleep 1"  # Docker's images know whole seconds
        )
    host.run("docker image tag running:1 dflash-kit/engine:by-hand")
    for number, link in ((1, "current"), (2, "last_good")):
        folder = f"/opt/dflash-kit/deployments/{number}"
        host.run(
            f"mkdir -p {folder} && echo 'image: {tag(number)}' > {folder}/compose.yaml "
            f"&& ln -s {folder} /opt/dflash-kit/{link}"
        )
    host.run(f"docker create {tag(3)} /n")

    image = delivery.image(OLD)
    play = delivery.to("host1", image)
    assert play.rc == 0, play.out
    stay = [tag(number) for number in (1, 2, 3, 6, 7)]
    assert tags(host) == sorted([*stay, image.tag, "dflash-kit/engine:by-hand"]), play.out
    assert pulled.ids[0] not in host.run("docker image ls --all --no-trunc --quiet")


def test_publish_never_changes_what_is_there(delivery: Delivery) -> None:
    registry = delivery.fleet.registry
    registry.push(build_small(WHOLE), "dflash-kit/taken", f"{WHOLE}-{VARIANT}")
    got = registry.config("dflash-kit/taken", f"{WHOLE}-{VARIANT}")
    with pytest.raises(AssertionError) as caught:
        registry.publish(VARIANT, WHOLE, "dflash-kit/taken")
    wanted = from_docker(WHOLE, VARIANT).ids[0]
    said = f"{WHOLE}-{VARIANT}: got {got} in the registry, wanted {wanted} or none: a release never"
    assert "ended with 2: publish: " in str(caught.value) and said in str(caught.value)
    assert registry.config("dflash-kit/taken", f"{WHOLE}-{VARIANT}") == got


def test_publish_saves_an_archive_with_its_sha256(tmp_path: Path) -> None:
    file = tmp_path / "engine.tar.zst"
    said = run(str(ROOT / "scripts" / "publish"), "save", VARIANT, WHOLE, str(file))
    image, built = from_archive(file, WHOLE, VARIANT), from_docker(WHOLE, VARIANT)
    assert said == f"{image.sha256}  engine.tar.zst"
    assert file.with_name("engine.tar.zst.sha256").read_text().strip() == said
    assert (image.tag, image.ids[0]) == (built.tag, built.ids[0])
