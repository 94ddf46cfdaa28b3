"""A streamed chat answer, put together from its chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dflash_kit.errors import CheckFailed


@dataclass
class Stream:
    """A streamed chat answer, chunk by chunk as it came."""

    chunks: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish_reasons: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    done: bool = False

    @property
    def text(self) -> str:
        return "".join(self.chunks)

    def add(self, chunk: dict[str, Any]) -> None:
        """Take in one event; CheckFailed where the engine reports an error in the stream."""
        if error := chunk.get("error"):
            raise CheckFailed(f"the stream says {str(error)[:120]!r}")
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices", []):
            delta = choice.get("delta", {})
            if content := delta.get("content"):
                self.chunks.append(content)
            if thought := delta.get("reasoning_content"):
                self.reasoning.append(thought)
            for call in delta.get("tool_calls") or []:
                self._add_call(call)
            if reason := choice.get("finish_reason"):
                self.finish_reasons.append(reason)

    def _add_call(self, call: dict[str, Any]) -> None:
        """A name comes once, arguments come in parts."""
        known = self.calls.setdefault(call["index"], {"name": "", "arguments": ""})
        for name in known:
            known[name] += call["function"].get(name) or ""
