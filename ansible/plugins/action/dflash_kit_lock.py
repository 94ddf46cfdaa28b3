"""Holds the rollout lock of a host; a lock whose rollout is known to be over is broken."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from dflash_kit.rollout import lock

display = Display()


class ActionModule(ActionBase):
    """`breaks` is the id of a lock that its owner will not give back."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        host = task_vars["inventory_hostname"]
        arguments = {
            "path": self._task.args["path"],
            "state": self._task.args.get("state", "present"),
            # Tasks run in children of the process that a rollout is.
            "content": lock.this_run(os.getppid()).as_line(),
        }
        answer = self._execute_module(module_args=arguments, task_vars=task_vars)
        holder = lock.parse(answer.get("holder", "")) if answer.get("failed") else None
        if holder and (lock.is_over(holder) or holder.id == self._task.args.get("breaks")):
            display.display(f"{host}: breaking the lock of {holder.owner}, process {holder.pid}")
            arguments["breaks"] = answer["holder"]
            answer = self._execute_module(module_args=arguments, task_vars=task_vars)
        if answer.get("failed") and "holder" in answer:
            now = datetime.now(UTC)
            answer["msg"] = lock.refusal(host, arguments["path"], answer["holder"], now)
        result.update(answer)
        return result
