"""Jobs that read their data from several sources and from S3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer.conftest import Group, Outcome
from tests.trainer.s3 import S3
from tests.trainer.spread import CONSTANT
from trainer.data import prepare, sources

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def outcomes(
    group: Group, questions: Path, s3_server: S3, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("data")
    client, bucket = s3_server.client(), s3_server.bucket()
    for name, source in (("reference", sources.PYTHON), ("questions", str(questions))):
        prepare.prepare(source, "byt5", 0.05, folder / name, shard_tokens=100_000)
        for path in (folder / name).glob("*.*"):
            client.put_object(Bucket=bucket, Key=f"{name}/{path.name}", Body=path.read_bytes())

    def job(where: str, **data: Any) -> dict[str, Any]:
        mix = [
            {"prepared": f"{where}/reference", "weight": 1},
            {"prepared": f"{where}/questions", "weight": 2},
        ]
        # Blocks so small that their groups change while the job runs.
        return {"data": {"source": None, "sources": mix, "shuffle": {"block": 512, "blocks": 3}, **data}}

    remote = f"s3://{bucket}"
    two = {
        "local": job(str(folder), verify=True),
        "s3": job(remote, cache=str(folder / "blocks")),
        "copy": job(remote, cache=str(folder / "copies"), download=True),
        "stopped": {**job(remote, cache=str(folder / "blocks")), **CONSTANT, "steps": 6},
        "resumed": {**job(remote, cache=str(folder / "others")), **CONSTANT, "output": "stopped"},
        "unbroken": {**job(str(folder)), **CONSTANT},
    }
    one = {"one": job(remote, cache=str(folder / "one"))}
    return group(2, two, s3_server.environment) | group(1, one, s3_server.environment)


@pytest.mark.parametrize("name", ["s3", "copy", "one"])
def test_wherever_data_lies_the_numbers_are_the_same(name: str, outcomes: dict[str, Outcome]) -> None:
    local, other = outcomes["local"], outcomes[name]
    assert (local.status, other.status) == (0, 0), local.message + other.message
    if name == "one":
        assert other.losses == pytest.approx(local.losses, rel=1e-5)
    else:
        assert other.losses == local.losses
        assert other.history.held_out == local.history.held_out


def test_a_mixture_on_s3_goes_on_where_it_was_left(outcomes: dict[str, Outcome]) -> None:
    """With nothing of what the start before had fetched."""
    resumed, unbroken = outcomes["resumed"], outcomes["unbroken"]
    assert (resumed.status, unbroken.status) == (0, 0), resumed.message + unbroken.message
    assert [start["step"] for start in resumed.history.starts] == [0, 6]
    assert resumed.losses == unbroken.losses
    assert resumed.history.held_out[12] == unbroken.history.held_out[12]
