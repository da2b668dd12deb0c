"""The environment in which pulumi, kubectl, aws and promtool talk to the local stack."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from lab.settings import Lab

PROJECT = Path(__file__).resolve().parents[2]
REGION = "us-east-1"
ACCESS_KEY = "LKIALABADMIN00000000"
"""The emulator's administrator. It does not start with AKIA, so no real key can be mistaken for it."""


def variables(lab: Lab) -> dict[str, str]:
    """What differs from the caller's own environment, PATH included."""
    first = [PROJECT / ".venv/bin", PROJECT / "lab/providers/bin", lab.bin]
    return {
        "AWS_ENDPOINT_URL": lab.aws_endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": "lab",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
        "KUBECONFIG": str(lab.state / "kubeconfig"),
        "PULUMI_BACKEND_URL": f"file://{lab.state}/pulumi",
        "PULUMI_HOME": str(lab.state / "pulumi-home"),
        "PULUMI_CONFIG_PASSPHRASE": "local",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "NO_PROXY": ",".join(["localhost", "127.0.0.1", str(lab.network)]),
        "no_proxy": ",".join(["localhost", "127.0.0.1", str(lab.network)]),
        "SHARDYARD_AWS_WAIT_FACTOR": lab.aws_wait_factor,
        "SHARDYARD_LAB": lab.name,
        "PATH": ":".join([*map(str, first), _without(os.environ.get("PATH", ""), first)]),
    }


UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "PULUMI_ACCESS_TOKEN", "VIRTUAL_ENV")
"""A user's own credentials and profiles must not reach the lab, nor the lab's calls reach AWS."""


def environment(lab: Lab) -> dict[str, str]:
    """The whole environment for a child process."""
    inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**inherited, **variables(lab)}


def exports(lab: Lab) -> str:
    """Lines for `eval "$(make env)"`."""
    lines = [f"unset {' '.join(UNSET)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(lab).items()]
    return "\n".join(lines)


def _without(path: str, folders: list[Path]) -> str:
    """PATH without folders that are put in front anyway, so that running it twice changes nothing."""
    drop = {str(folder) for folder in folders}
    return ":".join(part for part in path.split(":") if part and part not in drop)
