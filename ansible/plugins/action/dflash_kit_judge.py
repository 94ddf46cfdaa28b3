"""Judges what was collected on a host; every check that does not pass is shown at once."""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from dflash_kit.errors import KitError
from dflash_kit.host.preflight import judge
from dflash_kit.profiles.load import load_profile
from dflash_kit.verdicts import Verdict, overall

display = Display()


class ActionModule(ActionBase):
    """Fails where a check failed or could not be judged; a check in `demoted` only warns."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        host = task_vars["inventory_hostname"]
        try:
            profile = load_profile(self._task.args["profile"])
            records = judge(
                json.loads(self._task.args["collected"]), profile, self._task.args["demoted"]
            )
        except KitError as error:
            raise AnsibleActionFail(f"{host}: {error}") from None
        bad = []
        for record in records:
            if record.verdict in (Verdict.PASS, Verdict.SKIP):
                continue
            line = (
                f"{host}: {record.code}: {record.verdict}: got {record.measured}, wanted "
                f"{record.wanted}; {record.next_step}"
            )
            if record.verdict is Verdict.WARN:
                display.display(line)
            else:
                bad.append(line)
        if bad:
            switch = "a check that shall only warn: host_checks_demoted"
            raise AnsibleActionFail("\n".join([*bad, f"{host}: nothing was changed; {switch}"]))
        result["verdict"] = str(overall(records))
        result["checks"] = len(records)
        return result
