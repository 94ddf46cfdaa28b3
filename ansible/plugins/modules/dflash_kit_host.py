#!/usr/bin/python
"""Reads what a host runs and what lies ready on it; changes nothing."""

import json
import os
import shutil

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: dflash_kit_host
short_description: Read the deployments, the engine and the lock of a host
description:
  - One round trip for all that a rollout has to know. It judges nothing.
options:
  root: {description: The kit's folder on the host., type: path, required: true}
  project: {description: Name of the compose project., type: str, required: true}
author: dflash-kit
"""
EXAMPLES = """
- dflash_kit_host: {root: /opt/dflash-kit, project: dflash-kit}
"""
RETURN = "host: {description: What was found., type: dict, returned: always}"

FILES = ("compose.yaml", "engine.env", "deployment.json", "receipt.json", "container.json")


def read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return None


def link(root, name):
    """The deployment that a symlink names; None where there is no link."""
    try:
        return os.path.basename(os.readlink(os.path.join(root, name)))
    except OSError:
        return None


def deployments(root):
    folder = os.path.join(root, "deployments")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {n: {f: read(os.path.join(folder, n, f)) for f in FILES} for n in sorted(names)}


def containers(module, project):
    """`docker inspect` of the project's engine containers, running or not."""
    rc, out, err = module.run_command(
        ["docker", "ps", "--all", "--quiet", "--no-trunc"]
        + ["--filter", "label=com.docker.compose.project=" + project]
        + ["--filter", "label=com.docker.compose.oneoff=False"]
    )
    if rc:
        module.fail_json(msg="docker ps: " + err.strip())
    if not out.split():
        return []
    rc, out, err = module.run_command(["docker", "inspect"] + out.split())
    try:
        return [container for container in json.loads(out) if container["Config"]]
    except ValueError:
        module.fail_json(msg="docker inspect: " + err.strip())


def main():
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "project": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    root = module.params["root"]
    docker = shutil.which("docker") is not None
    module.exit_json(
        changed=False,
        host={
            "current": link(root, "current"),
            "last_good": link(root, "last_good"),
            "lock": read(os.path.join(root, "lock")),
            "deployments": deployments(root),
            "containers": containers(module, module.params["project"]) if docker else [],
        },
    )


if __name__ == "__main__":
    main()
