"""The engine is the one that was built: it reports what the release's lock says."""

import pytest

NOT_THE_BUILD = "deploy the image of this release, or give --release the one that should run"


@pytest.mark.check("release")
def test_release(check, wanted, identity, info):
    measured = f"{identity.get('release', 'not reported')} on {info.get('version')}"
    expected = f"{wanted.release} on {wanted.lock.sglang}"
    check(ok=measured == expected, measured=measured, wanted=expected, next_step=NOT_THE_BUILD)


@pytest.mark.check("patches")
def test_patches(check, wanted, identity):
    got = identity.get("patches") or []
    expected = [patch.name for patch in wanted.lock.patches]
    lacking = [name for name in expected if name not in got]
    foreign = [name for name in got if name not in expected]
    measured = f"{len(got)} patches"
    if got != expected:
        measured += f"; lacks {lacking}, has beside them {foreign}, order {got}"
    check(
        ok=got == expected,
        measured=measured,
        wanted=f"the lock's {len(expected)}",
        next_step=NOT_THE_BUILD,
    )


@pytest.mark.check("tree")
def test_tree(check, wanted, identity):
    got = identity.get("tree", "not reported")
    check(
        ok=got == wanted.lock.tree,
        measured=got[:12],
        wanted=wanted.lock.tree[:12],
        next_step=f"{NOT_THE_BUILD}; its files differ from the lock ({got})",
    )


@pytest.mark.check("deployment")
def test_deployment(check, wanted, identity):
    got = {name: identity.get(name, "not reported") for name in ("profile", "point")}
    asked = {"profile": wanted.profile, "point": wanted.point}
    expected = {name: value or got[name] for name, value in asked.items()}
    check(
        ok=got == expected and "not reported" not in got.values(),
        measured=f"{got['profile']} / {got['point']}",
        wanted=f"{wanted.profile or 'any'} / {wanted.point or 'any'}",
        next_step="start the engine with that profile and point",
    )
