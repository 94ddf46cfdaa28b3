#!/usr/bin/python
"""Takes, breaks or gives back the lock that keeps two rollouts off one host."""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: dflash_kit_lock
short_description: Hold the rollout lock of a host
description:
  - C(present) takes the lock where nobody has it, and fails with its content where somebody has.
  - C(absent) gives it back where its content is the one given, and leaves another's alone.
options:
  path: {description: The lock's file., type: path, required: true}
  content: {description: One line that says who takes it., type: str, required: true}
  breaks: {description: Content of a lock that is replaced., type: str, default: ""}
  state: {description: Take it or give it back., choices: [present, absent], default: present}
author: dflash-kit
"""
EXAMPLES = """
- dflash_kit_lock: {path: /opt/dflash-kit/lock, content: '{}'}
"""
RETURN = "holder: {description: Content of the lock that stands., type: str, returned: always}"


def holder(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def take(path, content):
    """Whether the lock is ours now: a hard link is made whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".lock.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
    try:
        os.link(scratch, path)
        return True
    except FileExistsError:
        return holder(path) == content
    finally:
        os.unlink(scratch)


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "breaks": {"type": "str", "default": ""},
            "state": {"choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    path, content = module.params["path"], module.params["content"]
    before = holder(path)
    # A rollout that comes and goes leaves no trace: neither is a change.
    result = {"changed": False, "holder": before}
    if module.check_mode:
        module.exit_json(**result)
    if module.params["state"] == "absent":
        if before == content:
            os.unlink(path)
        module.exit_json(**result)
    if before and before == module.params["breaks"]:
        os.unlink(path)
    if take(path, content):
        module.exit_json(changed=False, holder=content)
    module.fail_json(msg="the lock is taken", holder=holder(path))


if __name__ == "__main__":
    main()
