"""After a playbook: one table of all its hosts, also of those that it did not get to."""

from __future__ import annotations

from ansible.plugins.callback import CallbackBase

from dflash_kit.rollout import table

DOCUMENTATION = """
name: dflash_kit_fleet
type: aggregate
short_description: The fleet after a rollout
description:
  - Prints what the tasks left with set_stats, host by host.
requirements:
  - enable in configuration
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "dflash_kit_fleet"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.hosts: list[str] = []

    def v2_playbook_on_play_start(self, play) -> None:
        manager = play.get_variable_manager()
        for host in manager._inventory.get_hosts(play.hosts):
            if host.name not in self.hosts:
                self.hosts.append(host.name)

    def v2_playbook_on_stats(self, stats) -> None:
        kept = {host: stats.custom.get(host, {}) for host in self.hosts}
        if any("dflash_kit_status" in each for each in kept.values()):
            hosts = {host: each.get("dflash_kit_status") for host, each in kept.items()}
            self._show(table.status_lines(hosts))
        elif any("dflash_kit" in each for each in kept.values()):
            self._show(table.lines([self._row(host, kept[host], stats) for host in self.hosts]))

    def _row(self, host, kept, stats):
        counts = stats.summarize(host)
        return table.Row.from_stats(
            host,
            kept.get("dflash_kit", {}),
            unreachable=bool(counts["unreachable"]),
            failed=bool(counts["failures"]),
        )

    def _show(self, lines) -> None:
        self._display.display("\n".join(lines))
