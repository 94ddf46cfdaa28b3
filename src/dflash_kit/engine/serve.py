"""`dflash-kit serve`: everything that can be refused is refused before the engine starts."""

import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dflash_kit.engine import config, keys, processes
from dflash_kit.engine.caches import cache_environment
from dflash_kit.engine.identity import Identity, identify
from dflash_kit.engine.supervisor import hold_signals, say, supervise
from dflash_kit.errors import InputError
from dflash_kit.host.facts import Host
from dflash_kit.profiles.detect import detect, here, names, refuse_unfit
from dflash_kit.profiles.load import load_pair, load_profile
from dflash_kit.profiles.models import Pair, Profile
from dflash_kit.profiles.pair_check import pair_problems

# Where the engine reads what it is, to report it in server_info.
IDENTITY_VARIABLE = "DFLASH_KIT_IDENTITY"
_IDENTITY_NAME = "identity.json"


@dataclass(frozen=True)
class Plan:
    """What will run; `environment` is what is added to the calling environment."""

    profile: Profile
    command: list[str]
    environment: dict[str, str]
    port: int
    user_key: str = field(repr=False)
    identity: Identity

    def facts(self) -> dict[str, str]:
        """What is printed before the start; no key is among it."""
        added = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return {
            "release": f"{self.identity.release} ({self.identity.variant})",
            "patches": ", ".join(self.identity.patches) or "none",
            "tree": self.identity.tree,
            "profile": self.identity.profile,
            "point": self.identity.point,
            "port": str(self.port),
            "command": " ".join(self.command),
            "environment": added,
        }


def run(profile_name: str | None, point: str, port: int | None, as_json: bool) -> int:
    """Check, print what will run, run it; the exit code of the whole.

    InputError (and nothing started) where the input cannot be served.
    """
    hold_signals()
    plan = make_plan(profile_name, point, port)
    if as_json:
        print(json.dumps(plan.facts()), flush=True)
    else:
        for name, value in plan.facts().items():
            say(f"{name}: {value}")
    return supervise(
        plan.command,
        {**os.environ, **plan.environment},
        plan.port,
        plan.user_key,
        plan.profile.limits,
    )


def make_plan(profile_name: str | None, point: str, port: int | None) -> Plan:
    """Make every check in order, then write the keys, the identity and the configuration."""
    host = here()
    profile = choose_profile(profile_name, host)
    pair = load_pair(profile.pair)
    preview = config.render(profile, pair, point, config.REDACTED, port)
    refuse_environment({**os.environ, **preview.environment})
    refuse_bad_pair(pair)
    refuse_little_memory(profile)
    refuse_taken_port(str(preview.arguments.get("host", "127.0.0.1")), preview.port)
    identity = on_host(identify(profile.name, point), host)
    # Without a GPU nothing is compiled on the host.
    uses_gpus = profile.hardware.count > 0
    caches = cache_environment(identity.tree, profile.name, host.driver) if uses_gpus else {}
    made = keys.ensure_keys(keys.keys_dir())
    rendered = config.render(profile, pair, point, made, port)
    folder = config.run_dir()
    identity_file = folder / _IDENTITY_NAME
    config.write_private(identity_file, identity.as_json())
    config_file = config.write_config(rendered.arguments, folder)
    return Plan(
        profile=profile,
        command=[sys.executable, "-m", "sglang.launch_server", "--config", str(config_file)],
        environment={**caches, **rendered.environment, IDENTITY_VARIABLE: str(identity_file)},
        port=rendered.port,
        user_key=made.user,
        identity=identity,
    )


def on_host(identity: Identity, host: Host) -> Identity:
    """The identity with the GPUs of `host`."""
    return replace(identity, gpus=names(host), driver=host.driver) if host.gpus else identity


def choose_profile(name: str | None, host: Host) -> Profile:
    """The profile called `name`, or the one made for `host`; refused if it is not for it."""
    profile = load_profile(name) if name else detect(names(host))
    refuse_unfit(profile, host)
    refuse_left_out(profile)
    return profile


def refuse_left_out(profile: Profile) -> None:
    """InputError where the image was built for other cards than the profile's."""
    built = os.environ.get("DFLASH_KIT_CAPABILITIES", "").split()
    wanted = profile.hardware.compute_capability
    if built and wanted and wanted not in built:
        raise InputError(
            f"profile {profile.name}: got an image for compute capability {', '.join(built)}, "
            f"wanted one for {wanted}; build it with CAPABILITIES={wanted}, or unset for every card"
        )


def refuse_environment(environment: Mapping[str, str]) -> None:
    """InputError where a variable would put keys into the log or make acceptance a fiction."""
    headers = environment.get("SGLANG_LOG_REQUEST_HEADERS", "")
    if "authorization" in headers.lower():
        raise InputError(
            f"SGLANG_LOG_REQUEST_HEADERS: got {headers!r}, wanted it without authorization: "
            "the engine would log the keys"
        )
    if simulated := environment.get("SGLANG_SIMULATE_ACC_LEN"):
        raise InputError(
            f"SGLANG_SIMULATE_ACC_LEN: got {simulated!r}, wanted it unset: "
            "the engine would pretend how many tokens of the draft it accepts"
        )


def refuse_bad_pair(pair: Pair) -> None:
    """InputError with every problem of the pair on one line."""
    if problems := pair_problems(pair):
        raise InputError(f"pair {pair.name}: " + "; ".join(problems))


def refuse_little_memory(profile: Profile) -> None:
    """InputError where the engine would be killed for memory, perhaps without a word."""
    got = processes.memory_limit() // 2**20
    wanted = profile.hardware.memory_mib
    if got < wanted:
        raise InputError(
            f"profile {profile.name}: memory: got {got} MiB (limit of this container or host), "
            f"wanted {wanted}; raise the limit (docker compose: DFLASH_KIT_MEMORY)"
        )


def refuse_taken_port(host: str, port: int) -> None:
    """InputError where the engine could not listen on `host`:`port`."""
    with socket.socket() as listener:
        # As the engine does it: a port whose last connections are only fading is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise InputError(
                f"port {port} on {host}: {error.strerror}; end what listens there or choose "
                "another with --port"
            ) from None
