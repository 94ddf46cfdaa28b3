"""Reads a host and judges what it reads: what runs there, how it was changed, where back leads."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from dflash_kit import paths
from dflash_kit.errors import KitError
from dflash_kit.releases import catalogue
from dflash_kit.rollout import state
from dflash_kit.rollout.plan import Deployment


class ActionModule(ActionBase):
    """`wanted` is a deployment, or absent: then the host's current one is meant.

    With `allow_withdrawn` the way back may lead to a release that is withdrawn.
    """

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        arguments = {key: self._task.args[key] for key in ("root", "project")}
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        if result.get("failed"):
            return result
        found = state.read(result.pop("host"))
        given = self._task.args.get("wanted")
        wanted = Deployment.model_validate(given) if given else found.running
        try:
            known = catalogue.load(paths.RELEASES_FILE)
        except KitError as error:
            raise AnsibleActionFail(str(error)) from None
        allow = bool(self._task.args.get("allow_withdrawn"))
        result["host"] = state.summary(found, wanted, known.withdrawn, allow)
        return result
