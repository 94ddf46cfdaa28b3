"""A host of the fleet that answers as a machine with GPUs does, and is changed by a document."""

import hashlib
import json
import shutil
from pathlib import Path

from dflash_kit.host import collect, facts
from dflash_kit.host.parse import Gpu
from dflash_kit.profiles.load import load_pair, load_shape
from dflash_kit.profiles.shape import NOT_IN_CONFIG
from dflash_kit.weights.manifest import manifest_file
from dflash_kit.weights.verify import make_manifest
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.gpu.packages import make_repository
from tests.unit.host_documents import Document, answer

HERE = Path(__file__).parent
NAME = "gpu1"
MODELS = "/srv/models"
SETUP = HERE / "setup.yml"
# As a line of apt's sources has it.
REPOSITORY = "file:/machine/repository ./"
# Docker and what the toolkit's package installs are the host's own.
_REAL = ("docker", "nvidia-ctk")
# What a rollout asks before it starts an engine, and what the role gpu_host asks and sets.
_HOLDERS = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
_DRIVER = ["nvidia-smi", "--query-gpu=driver_version,persistence_mode", "--format=csv,noheader"]
_PERSIST = ["nvidia-smi", "-pm", "1"]
_VERSION = "/proc/driver/nvidia/version"
_MEMORY = "/proc/meminfo"
_SETUP = f"""
set -e
mount -t tmpfs tmpfs /proc/driver
mkdir /proc/driver/nvidia
ln -s /machine/version {_VERSION}
mount --bind /machine/meminfo {_MEMORY}
for name in $(cat /machine/programs); do ln -s /gpu/replay /usr/local/bin/$name; done
ln -s /gpu/runc /usr/local/bin/runc
ln -s /gpu/docker-service /etc/init.d/docker
"""
_RESTART = """
service docker restart
timeout 60 sh -c 'until docker info > /dev/null 2>&1; do sleep 0.1; done'
"""
_INSTALL = """
set -e
dpkg-deb --build /gpu/toolkit /tmp/toolkit.deb
dpkg --install /tmp/toolkit.deb
mkdir -p /etc/cdi
nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
"""
_REMOVE = """
set -e
dpkg --purge nvidia-container-toolkit
rm -f /etc/cdi/nvidia.yaml
"""


class Machine:
    """The host `gpu1` of a fleet, at first as `document`, which collect.py could have written."""

    def __init__(self, fleet: Fleet, folder: Path, document: Document) -> None:
        self._folder = folder / "machine"
        self._answers = self._folder / "answers"
        self.become(document)
        _write_models(folder / "models")
        volumes = {
            str(HERE): {"bind": "/gpu", "mode": "ro"},
            str(self._folder): {"bind": "/machine", "mode": "rw"},
            str(folder / "models"): {"bind": MODELS, "mode": "rw"},
        }
        self.host = fleet.add_host(NAME, volumes=volumes)
        self.host.run(_SETUP)

    def become(self, document: Document) -> None:
        """Answer from now on as the machine of `document`."""
        shutil.rmtree(self._answers, ignore_errors=True)
        said = document["commands"]
        asked = {
            name: words
            for name, words in collect.COMMANDS.items()
            if name in said and words[0] not in _REAL
        }
        for name, words in asked.items():
            self._answer(words, said[name])
        for name, where in (("disk-images", "/var/lib/docker"), ("disk-weights", MODELS)):
            self._answer(["df", "-PT", "-B1", where], said[name])
        self._answer(_HOLDERS, answer())
        self._answer(_PERSIST, answer())
        gpus = facts.Host(document).gpus
        self._answer(_DRIVER, answer("".join(f"{x.driver}, {x.persistence}\n" for x in gpus)))
        programs = {words[0] for words in asked.values()} | {"df"}
        (self._folder / "programs").write_text("\n".join(sorted(programs)))
        # In place, as they are mounted.
        (self._folder / "meminfo").write_text(document["files"][_MEMORY]["text"])
        (self._folder / "version").write_text(document["files"][_VERSION]["text"])
        (self._folder / "cdi").write_text(json.dumps(_specification(gpus), indent=1))
        (self._folder / "libcuda").touch()
        (self._folder / "asked").write_text("")

    def equip(self) -> None:
        """Make sure of the container toolkit with its CDI specification, known to Docker."""
        if not self.host.run("command -v nvidia-ctk || true"):
            self.install_toolkit()
            self.host.run(_RESTART)

    def install_toolkit(self) -> None:
        """The toolkit and a CDI specification; Docker looks for them only when it starts."""
        self.host.run(_INSTALL)

    def remove_toolkit(self) -> None:
        """No toolkit and no CDI specification."""
        self.host.run(_REMOVE)

    def make_bare(self) -> None:
        """No container, no toolkit, and a Docker that knows of none."""
        self.host.bare(images=False)
        self.host.run(f"{_REMOVE}{_RESTART}")

    def offer_toolkit(self) -> Path:
        """Make REPOSITORY; gives the file of its key."""
        return make_repository(self._folder / "repository")

    def asked(self) -> list[str]:
        """What programs of the machine were asked since it became this one."""
        return (self._folder / "asked").read_text().splitlines()

    def _answer(self, words: list[str], said: Document) -> None:
        asked = "".join(f"{word}\n" for word in words)
        folder = self._answers / hashlib.sha256(asked.encode()).hexdigest()
        folder.mkdir(parents=True)
        for name in ("stdout", "stderr", "rc"):
            (folder / name).write_text(str(said[name]))


def _specification(gpus: list[Gpu]) -> Document:
    """What the toolkit would write: a device a GPU, the driver's library and its program."""
    mounts = {
        "/machine/libcuda": f"/usr/lib/libcuda.so.{gpus[0].driver}",
        "/gpu/replay": "/usr/bin/nvidia-smi",
        "/machine": "/machine",
        "/machine/meminfo": _MEMORY,
    }
    nodes = [
        {"path": f"/dev/nvidia{gpu.index}", "type": "c", "major": 195, "minor": int(gpu.index)}
        for gpu in gpus
    ]
    return {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": str(node["minor"]), "containerEdits": {"deviceNodes": [node]}}
            for node in nodes
        ],
        "containerEdits": {
            "mounts": [
                {"hostPath": outside, "containerPath": inside} for outside, inside in mounts.items()
            ]
        },
    }


def _write_models(folder: Path) -> None:
    """The folders of the pair: configurations as they should be, weights of no bytes."""
    pair = load_pair("kimi-k2.6-int4")
    assert pair.shape
    shape, match = load_shape(pair.shape), pair.match
    common = {"dtype": match.dtype, "vocab_size": match.vocab_size}
    target = shape.target.model_dump(exclude=NOT_IN_CONFIG) | common
    draft = shape.draft.model_dump(exclude=NOT_IN_CONFIG) | common
    draft |= {
        "block_size": match.block_size,
        "num_target_layers": shape.target.num_hidden_layers,
        "rope_theta": match.rope_theta,
        "dflash_config": match.model_dump(include={"mask_token_id", "target_layer_ids"}),
    }
    for model, config in ((pair.target, target), (pair.draft, draft)):
        place = folder / Path(model.path).relative_to("/models")
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(config))
        (place / "model.safetensors").touch()
        made = make_manifest(place, model.repository, model.revision)
        made.write(manifest_file(place))
