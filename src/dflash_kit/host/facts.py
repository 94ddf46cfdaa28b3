"""A host as collect.py found it. What was not collected raises Unknown, which no check survives."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dflash_kit.host import collect, parse


class Unknown(Exception):
    """A fact that the host did not give, and why."""


@dataclass(frozen=True)
class Host:
    """The document of collect.py, read as facts; any shape of it is borne."""

    collected: Mapping[str, Any]

    def setting(self, name: str) -> str:
        """What collect.py was called with; empty where nothing was said."""
        return str(_mapping(self.collected.get("settings")).get(name) or "")

    def answer(self, name: str) -> tuple[bool, str]:
        """Whether the command called `name` worked, and its output, or why it did not.

        Raises:
            Unknown: it was not run.
        """
        result = _mapping(_mapping(self.collected.get("commands")).get(name))
        if not result:
            raise Unknown(f"{name}: not collected")
        if result.get("rc") == 0:
            return True, str(result.get("stdout", ""))
        # A tool tells its failure on either stream: nvidia-smi on stdout.
        reason = str(result.get("stderr") or result.get("stdout") or f"rc {result.get('rc')}")
        return False, f"{name}: {' '.join(reason.split())[:100]}"

    def said(self, name: str) -> str:
        """The output of the command called `name`.

        Raises:
            Unknown: it was not run, is missing, failed or did not end.
        """
        worked, text = self.answer(name)
        if not worked:
            raise Unknown(text)
        return text

    def missing(self, name: str) -> bool:
        """Whether the host has no such program."""
        result = _mapping(_mapping(self.collected.get("commands")).get(name))
        return result.get("rc") == collect.MISSING_RC

    def files(self, prefix: str) -> dict[str, str]:
        """Path -> content of the files collected under `prefix`."""
        found = _mapping(self.collected.get("files"))
        return {
            str(path): str(_mapping(content).get("text", ""))
            for path, content in found.items()
            if str(path).startswith(prefix)
        }

    def file(self, path: str) -> str:
        """The content of `path`; Unknown where it was not there or not readable."""
        content = self.files(path).get(path)
        if content is None:
            raise Unknown(f"{path}: not readable")
        return content

    def processes(self) -> dict[str, tuple[str, str]]:
        """pid -> name and cgroup."""
        found = _mapping(self.collected.get("processes"))
        return {
            str(pid): (str(_mapping(item).get("name")), str(_mapping(item).get("cgroup")))
            for pid, item in found.items()
        }

    @cached_property
    def gpus(self) -> list[parse.Gpu]:
        """The GPUs here; none where there is no driver, Unknown where it does not answer."""
        return [] if self.missing("gpus") else parse.gpus(self.said("gpus"))

    @property
    def driver(self) -> str:
        """The GPU driver's version; Unknown where there is no GPU."""
        if not self.gpus:
            raise Unknown("no GPU")
        return self.gpus[0].driver

    @property
    def memory_mib(self) -> float:
        """Main memory."""
        size = parse.number(parse.fields(self.file("/proc/meminfo"), ":").get("MemTotal", ""))
        if size is None:
            raise Unknown("/proc/meminfo: no MemTotal")
        return size / 1024

    def own_containers(self) -> list[dict[str, Any]]:
        """The running containers whose image this kit built."""
        rows = parse.json_lines(self.said("containers"))
        return [row for row in rows if "io.dflash-kit.release=" in str(row.get("Labels"))]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
