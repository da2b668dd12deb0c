"""Configuration: only an AWS on this machine."""

from __future__ import annotations

from typing import Any

import pytest

from lab.providers.aws.cloud import Cloud, ConfigurationError, Settings, require_loopback

HERE = {"AWS_ENDPOINT_URL": "http://127.0.0.1:14566", "AWS_REGION": "us-east-1"}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:14566", "http://localhost"]
)
def test_loopback_is_accepted(url: str) -> None:
    assert require_loopback(url, "x") == url


@pytest.mark.parametrize(
    "url",
    [
        "https://ec2.us-east-1.amazonaws.com",
        "http://10.0.0.1:14566",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://user@example.com",
        "http://127.0.0.1@example.com",
        "127.0.0.1:14566",
        "",
    ],
)
def test_everything_else_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="isn't on this machine"):
        require_loopback(url, "AWS_ENDPOINT_URL")


def test_no_endpoint_at_all_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no endpoint"):
        Settings.parse({}, {"AWS_REGION": "us-east-1"})


def test_an_endpoint_of_a_single_service_counts_too() -> None:
    with pytest.raises(ConfigurationError, match="endpoints for eks"):
        Settings.parse({"endpoints": [{"eks": "https://eks.us-east-1.amazonaws.com"}]}, HERE)
    found = Settings.parse(
        {"endpoints": '[{"eks":"http://127.0.0.1:1","cloudwatchlogs":"http://localhost:2"}]'}, HERE
    )
    assert found.endpoints == {
        "": HERE["AWS_ENDPOINT_URL"],
        "eks": "http://127.0.0.1:1",
        "logs": "http://localhost:2",
    }


def test_variables_and_profiles_cannot_lead_a_client_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EKS", "https://eks.us-east-1.amazonaws.com")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.com")
    cloud = Cloud(Settings.parse({"accessKey": "a", "secretKey": "b"}, HERE))
    client = cloud.client("eks")
    assert client.meta.endpoint_url == HERE["AWS_ENDPOINT_URL"]
    assert client.meta.config.proxies == {}
    assert cloud.client("eks") is client


@pytest.mark.parametrize(
    ("given", "name"),
    [({"regoin": "x"}, "regoin"), ({"assumeRoles": [{}]}, "assumeRoles")],
)
def test_settings_it_does_not_have_are_refused(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match="no setting") as error:
        Settings.parse(given, HERE)
    assert error.value.name == name


def test_default_tags_and_accounts() -> None:
    given = {"defaultTags": '{"tags":{"a":"b"}}', "allowedAccountIds": '["1"]', "region": "us-west-2"}
    found = Settings.parse(given, HERE)
    assert (found.default_tags, found.allowed_account_ids, found.region) == ({"a": "b"}, ("1",), "us-west-2")


def test_a_region_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="no region"):
        Settings.parse({}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
