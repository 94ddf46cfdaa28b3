"""Which models a host must have for a profile; what cannot be staged is refused right here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from dflash_kit.errors import KitError
from dflash_kit.profiles.load import load_pair, load_profile
from dflash_kit.weights import staged


class ActionModule(ActionBase):
    """`folders` below the weights, and `bytes` of all; none where the image carries the pair."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        source = self._task.args["source"]
        try:
            pair = load_pair(load_profile(self._task.args["profile"]).pair)
            models = staged.staged(pair)
            if source == "":
                staged.refuse_unpinned(pair)
            elif source != "host":
                staged.refuse_source(pair, Path(source))
        except KitError as error:
            host = task_vars["inventory_hostname"]
            raise AnsibleActionFail(
                "\n".join(f"{host}: weights: {line}" for line in str(error).splitlines())
            ) from None
        result["pair"] = pair.name
        # A relative path starts where the playbook was called, not at the role.
        result["source"] = os.path.abspath(source)
        result["folders"] = [str(each.folder) for each in models]
        result["bytes"] = int(sum(each.model.gib for each in models) * 2**30)
        return result
