"""Waits until a host's engine generates, and shows meanwhile how far it is."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from dflash_kit.rollout import start

display = Display()
_PAUSE_SECONDS = 2.0
_SHOW_SECONDS = 5.0


class ActionModule(ActionBase):
    """Fails where the container ends, restarts, or does not generate in `seconds`."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        host, limit = task_vars["inventory_hostname"], float(self._task.args["seconds"])
        command = start.command(self._task.args["project"], self._task.args["service"])
        begin, shown = time.monotonic(), 0.0
        while True:
            answer = self._low_level_execute_command(command)
            seen = start.read(answer["stdout"])
            took = time.monotonic() - begin
            if seen.ready:
                result.update(changed=False, seconds=round(took, 1))
                return result
            if seen.ended or took > limit:
                result.update(failed=True, seconds=round(took, 1))
                result["msg"] = start.refusal(host, seen, took, limit)
                return result
            if took >= shown + _SHOW_SECONDS:
                shown = took
                display.display(f"{host}: {seen.stage}, {took:.0f} s: {seen.line}")
            time.sleep(_PAUSE_SECONDS)
