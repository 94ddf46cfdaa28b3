"""Judges the variables of every host, and plans every host's deployment; touches no host."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from ansible._internal._datatag._tags import Origin
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from dflash_kit.errors import KitError
from dflash_kit.rollout import inputs
from dflash_kit.rollout.plan import plan_for


class ActionModule(ActionBase):
    """`images: false` plans nothing: for playbooks that deploy nothing."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        hostvars = task_vars["hostvars"]
        hosts, wrong = {}, []
        options = inputs.load_options()
        for host in task_vars["ansible_play_hosts_all"]:
            hosts[host] = {}
            for name in hostvars[host]:
                if name not in options:
                    hosts[host][name] = None
                    continue
                try:
                    hosts[host][name] = hostvars[host][name]
                except AnsibleError as error:
                    wrong.append(f"{host}: {name}: {str(error).splitlines()[0]}")

        def where(host: str, variable: str) -> str:
            return _origin(hostvars.raw_get(host), variable)

        try:
            wrong += [str(problem) for problem in inputs.problems(hosts, options, where)]
        except KitError as error:  # a file of the kit itself is broken
            wrong.append(str(error))
        name = "dflash_kit_serial"
        # A play reads it before any host's variables.
        if name not in load_extra_vars(self._loader):
            places = dict.fromkeys(where(host, name) for host in hosts if name in hosts[host])
            wrong += [
                f"{place}: {name}: got it in the inventory, wanted it with -e {name}=N"
                for place in places
            ]
        if not wrong and self._task.args.get("plan", True):
            result["plans"], wrong = _plans(hosts, options, hostvars)
        if wrong:
            raise AnsibleActionFail(
                "\n".join([f"{len(wrong)} wrong input(s); no host was touched", *wrong])
            )
        return result


def _origin(variables: Any, name: str) -> str:
    """`inventory/group_vars/b300.yml:3` as far as Ansible still knows."""
    key = next((each for each in variables if each == name), name)
    origin = Origin.get_tag(variables.get(name)) or Origin.get_tag(key)
    if origin is None:
        return "inventory"
    if not origin.path:
        return str(origin.description)
    line = f":{origin.line_num}" if origin.line_num else ""
    return os.path.relpath(origin.path) + line


def _plans(hosts: Any, options: Any, hostvars: Any) -> tuple[dict[str, Any], list[str]]:
    """host -> its plan, and the lines of what stands in the way of one."""
    plans, wrong, known = {}, [], {}
    for host, variables in hosts.items():
        values = inputs.settings(variables, options)
        is_here = hostvars[host].get("ansible_connection") == "local"
        try:
            plan, image = plan_for(values, is_here, known)
        except KitError as error:
            wrong.append(str(error))
            continue
        plans[host] = {
            "deployment": plan.deployment.model_dump(mode="json"),
            "files": plan.files,
            "image": asdict(image),
        }
    return plans, list(dict.fromkeys(wrong))
