import json
from collections.abc import Callable
from typing import Any

import pytest
from rollout_host import RELEASE, RawHost, container, plan, receipt, stopped

from dflash_kit.rollout import state
from dflash_kit.rollout.plan import Plan
from dflash_kit.verdicts import Verdict

OLD, NEW, NEWEST = plan(), plan("throughput"), plan(dflash_kit_port=30001)
ID = OLD.deployment.id
OTHER = "0.5.11-dflash.2"


def test_a_proved_deployment_in_service_leaves_nothing_to_do() -> None:
    seen = RawHost().serve(OLD).read()
    assert state.drift(seen) == []
    assert state.is_in_service(seen, ID)
    assert state.runs(seen, OLD.deployment)
    assert seen.running == OLD.deployment
    assert not state.is_in_service(seen, NEW.deployment.id)
    assert not state.runs(seen, NEW.deployment)


def test_an_empty_host_has_nothing_in_service_and_no_way_back() -> None:
    seen = RawHost().read()
    told = state.summary(seen, NEW.deployment)
    assert not told["in_service"] and not told["runs"]
    assert told["way_back"] == told["running"] == {}
    assert told["drift"] == []
    assert (told["health"], told["current"], told["verdict"]) == ("none", "", "")


def _edit_environment(host: RawHost) -> None:
    host.files(ID)["engine.env"] = str(host.files(ID)["engine.env"]).replace("4g", "8g")


def _edit_compose(host: RawHost) -> None:
    host.files(ID)["compose.yaml"] = str(host.files(ID)["compose.yaml"]) + "# by hand\n"


def _lose_environment(host: RawHost) -> None:
    host.files(ID)["engine.env"] = None


def _remove_container(host: RawHost) -> None:
    host.raw["containers"] = []


def _second_container(host: RawHost) -> None:
    host.raw["containers"].append(container(ID, Id="c2"))


def _recreate(host: RawHost) -> None:
    host.container["Id"] = "c2"


def _docker_update(host: RawHost) -> None:
    host.container["HostConfig"]["Memory"] = 8 << 30


def _other_environment(host: RawHost) -> None:
    host.container["Config"]["Env"].append("SGLANG_DEBUG=1")


def _other_image(host: RawHost) -> None:
    host.container["Image"] = "sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (_edit_environment, f"compose.yaml or engine.env of {ID} was changed"),
        (_edit_compose, f"compose.yaml or engine.env of {ID} was changed"),
        (_lose_environment, f"compose.yaml or engine.env of {ID} was changed"),
        (_remove_container, "no engine's container is there"),
        (_second_container, "1 other container(s) of the kit"),
        (_recreate, "the container is not the one that was smoked"),
        (_docker_update, "HostConfig.Memory: got 8589934592, deployed 4294967296"),
        (
            _other_environment,
            'Config.Env: got ["DFLASH_KIT_PROFILE=cpu-tiny", "SGLANG_DEBUG=1"], '
            'deployed ["DFLASH_KIT_PROFILE=cpu-tiny"]',
        ),
        (_other_image, 'Image: got "sha256:bbbbbbbbbbbbbbbbbbb'),
    ],
)
def test_what_a_hand_changed_is_drift_and_no_longer_in_service(
    change: Callable[[RawHost], None], line: str
) -> None:
    host = RawHost().serve(OLD)
    change(host)
    seen = host.read()
    (told,) = state.drift(seen)
    assert told.startswith(line)
    assert not state.is_in_service(seen, ID)


def test_what_differs_from_start_to_start_is_no_drift() -> None:
    host = RawHost().serve(OLD)
    host.container["Config"]["Hostname"] = "c2"
    host.container["HostConfig"]["MountLabel"] = "x"
    host.container["State"]["StartedAt"] = "2026-05-02T00:00:00Z"
    assert state.drift(host.read()) == []


def test_current_without_a_complete_deployment_is_drift() -> None:
    host = RawHost().serve(OLD)
    host.files(ID)["deployment.json"] = None
    seen = host.read()
    assert state.drift(seen) == [f"current names {ID}, which is no complete deployment"]
    assert seen.running is None and not state.is_in_service(seen, ID)


def test_a_copied_folder_is_no_deployment_of_its_own() -> None:
    host = RawHost().serve(OLD)
    host.raw["deployments"]["copy-" + ID] = host.files(ID)
    seen = host.read()
    assert seen.placed["copy-" + ID].deployment is None
    assert state.ways_back(seen, leaving=ID) == []


def _failed(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = receipt(verdict=Verdict.FAIL)


def _inconclusive(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = receipt(verdict=Verdict.INCONCLUSIVE)


def _no_receipt(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = None


def _receipt_of_another_deployment(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = receipt(deployment=NEW.deployment.id)


def _receipt_of_another_image(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = receipt(image="sha256:" + "f" * 64)


def _receipt_that_says_more_than_its_checks(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = receipt(verdict=Verdict.FAIL).replace(
        '"verdict": "FAIL"}', '"verdict": "PASS"}'
    )


def _half_a_receipt(host: RawHost) -> None:
    host.files(ID)["receipt.json"] = receipt()[:200]


def _unrecorded(host: RawHost) -> None:
    host.files(ID)["container.json"] = None


def _half_a_record(host: RawHost) -> None:
    host.files(ID)["container.json"] = str(host.files(ID)["container.json"])[:100]


def _starting(host: RawHost) -> None:
    host.container["State"]["Health"]["Status"] = "starting"


@pytest.mark.parametrize(
    "bound",
    [
        {"deployment": ID, "image": OLD.deployment.config},
        {"deployment": None, "image": None},
        {"schema_version": 1, "required": []},
    ],
)
def test_a_receipt_of_this_deployment_is_believed(bound: dict[str, Any]) -> None:
    host = RawHost().serve(OLD)
    host.files(ID)["receipt.json"] = receipt(**bound)
    assert state.is_in_service(host.read(), ID)


def _never_good(host: RawHost) -> None:
    host.raw["last_good"] = NEW.deployment.id


@pytest.mark.parametrize(
    "change",
    [
        _failed,
        _inconclusive,
        _no_receipt,
        _half_a_receipt,
        _receipt_of_another_deployment,
        _receipt_of_another_image,
        _receipt_that_says_more_than_its_checks,
        _unrecorded,
        _half_a_record,
        _never_good,
        _starting,
    ],
)
def test_what_runs_but_not_all_good_is_not_in_service_and_is_not_started_again(
    change: Callable[[RawHost], None],
) -> None:
    host = RawHost().serve(OLD)
    change(host)
    seen = host.read()
    assert not state.is_in_service(seen, ID)
    assert state.runs(seen, OLD.deployment)


def _stop(host: RawHost) -> None:
    stopped(host.container)


def _stop_before_the_next_health_check(host: RawHost) -> None:
    stopped(host.container)
    host.container["State"]["Health"]["Status"] = "healthy"


def _move_current(host: RawHost) -> None:
    host.place(NEW).raw["current"] = NEW.deployment.id


def _sicken(host: RawHost) -> None:
    host.container["State"]["Health"]["Status"] = "unhealthy"


def _without_health_check(host: RawHost) -> None:
    host.container["State"]["Health"] = None


def _of_another_deployment(host: RawHost) -> None:
    host.raw["containers"] = [container(NEW.deployment.id)]


@pytest.mark.parametrize(
    ("change", "health"),
    [
        (_stop, "stopped"),
        (_stop_before_the_next_health_check, "stopped"),
        (_move_current, "healthy"),
        (_sicken, "unhealthy"),
        (_without_health_check, "none"),
        (_of_another_deployment, "healthy"),
        (_remove_container, "none"),
    ],
)
def test_an_engine_that_does_not_serve_the_deployment_neither_runs_nor_is_in_service(
    change: Callable[[RawHost], None], health: str
) -> None:
    host = RawHost().serve(OLD)
    change(host)
    told = state.summary(host.read(), OLD.deployment)
    assert (told["runs"], told["in_service"], told["health"]) == (False, False, health)


def test_the_running_container_counts_before_a_stopped_one() -> None:
    host = RawHost().serve(OLD)
    dead = container(ID, Id="dead")
    stopped(dead)
    host.raw["containers"].insert(0, dead)
    seen = host.read()
    assert seen.engine is not None and seen.engine.id == "c1"
    assert not state.runs(seen, OLD.deployment)


def test_ways_back_are_the_proved_others_newest_first() -> None:
    host = RawHost().serve(OLD, minutes=0)
    host.place(NEW, receipt(10)).place(NEWEST, receipt(20))
    host.place(plan(dflash_kit_port=30002), receipt(30, Verdict.FAIL))
    host.place(plan(dflash_kit_port=30003))
    seen = host.read()
    assert state.ways_back(seen, leaving=ID) == [NEWEST.deployment, NEW.deployment]
    assert state.ways_back(seen, leaving=NEWEST.deployment.id) == [NEW.deployment, OLD.deployment]
    told = state.summary(seen, NEW.deployment)
    assert told["way_back"]["id"] == NEWEST.deployment.id
    assert [each["id"] for each in told["proved_before"]] == [NEWEST.deployment.id, ID]


def test_no_way_leads_back_to_what_is_withdrawn_unless_allowed() -> None:
    other = plan(release=OTHER)
    host = RawHost().serve(OLD, minutes=0)
    seen = host.place(other, receipt(10)).place(NEWEST, receipt(5)).read()

    def withdrawn(*releases: str, leaving: Plan = OLD, allow: bool = False) -> dict[str, Any]:
        why = {release: f"{release} is withdrawn" for release in releases}
        return state.summary(seen, leaving.deployment, lambda r: why.get(r, ""), allow)

    def ways(told: dict[str, Any]) -> list[str]:
        return [each["id"] for each in told["proved_before"]]

    free, barred = withdrawn(), withdrawn(OTHER)
    assert ways(free) == [other.deployment.id, NEWEST.deployment.id]
    assert (free["barred"], free["withdrawn"]) == ({}, "")
    assert ways(barred) == [NEWEST.deployment.id]
    assert barred["way_back"]["id"] == NEWEST.deployment.id
    assert barred["barred"] == {other.deployment.id: f"{OTHER} is withdrawn"}
    assert barred["withdrawn"] == ""
    allowed = withdrawn(OTHER, allow=True)
    assert (ways(allowed), allowed["barred"]) == (ways(free), {})
    # What runs is withdrawn itself: it can be left.
    own = withdrawn(RELEASE, leaving=other)
    assert own["withdrawn"] == f"{RELEASE} is withdrawn"
    assert own["way_back"] == {}
    assert ways(withdrawn(RELEASE)) == [other.deployment.id]


def test_a_receipt_without_an_offset_does_not_stop_the_way_back() -> None:
    host = RawHost().serve(OLD).place(NEW, receipt(10).replace("12:10:00Z", "12:10:00"))
    assert "12:10:00Z" not in str(host.files(NEW.deployment.id)["receipt.json"])
    ways = state.ways_back(host.place(NEWEST, receipt(20)).read(), leaving="")
    assert ways == [NEWEST.deployment, NEW.deployment, OLD.deployment]


def test_the_summary_tells_what_the_tables_show() -> None:
    told = state.summary(RawHost().serve(OLD).read(), OLD.deployment)
    assert told["figures"] == {"accept_length": 7.4, "tok_s_c1": 120.0}
    assert told["patches"] == ["a.patch", "b.patch"]
    assert (told["verdict"], told["started"]) == ("PASS", "2026-05-01T11:00:00.5Z")
    assert told["containers"] == ["c1"] and json.loads(told["container"])["id"] == "c1"
    assert told["lock"] == ""
    json.dumps(told)


def test_an_image_without_patches_has_none() -> None:
    host = RawHost().serve(OLD)
    del host.container["Config"]["Labels"]["io.dflash-kit.patches"]
    assert state.summary(host.read(), None)["patches"] == []


def test_drift_shows_no_endless_value() -> None:
    host = RawHost().serve(OLD)
    host.container["Config"]["Env"] = ["X=" + "y" * 500]
    (line,) = state.drift(host.read())
    assert len(line) < 200 and "..." in line
