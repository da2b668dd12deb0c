"""Slimmed copies hold what is kept, and a vendor's module that has moved on is noticed before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.toolchain import aws_provider, sources
from lab.toolchain.copying import Edit, copy_tree
from lab.toolchain.errors import ToolchainError
from lab.toolchain.programs import programs

SERVICE_LIST = f"""\
package sdkv2

import (
\t"context"

\t"{aws_provider.PROVIDER}/internal/conns"
\t"{aws_provider.PROVIDER}/internal/service/ec2"
\t"{aws_provider.PROVIDER}/internal/service/rds"
)

var packages = []conns.ServicePackage{{
\t\tec2.ServicePackage(ctx),
\t\trds.ServicePackage(ctx),
}}
"""
CLIENTS = """\
package conns

import (
\t"context"

\t"github.com/aws/aws-sdk-go-v2/service/ec2"
\tcloudwatchlogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
\t"github.com/aws/aws-sdk-go-v2/service/rds"
)

func (c *AWSClient) EC2Client(ctx context.Context) *ec2.Client {
\treturn nil
}

func (c *AWSClient) LogsClient(ctx context.Context) *cloudwatchlogs.Client {
\treturn nil
}

func (c *AWSClient) RDSClient(ctx context.Context) *rds.Client {
\treturn nil
}
"""
FILTERS = """\
package namevaluesfilters

import (
\t"github.com/aws/aws-sdk-go-v2/aws"
\trdstypes "github.com/aws/aws-sdk-go-v2/service/rds/types"
\tsecretsmanagertypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
)

// RDSFilters returns rds service filters.
func (f NameValuesFilters) RDSFilters() []rdstypes.Filter { return aws.String("") }

// SecretsManagerFilters returns secretsmanager service filters.
func (f NameValuesFilters) SecretsManagerFilters() []secretsmanagertypes.Filter { return nil }
"""
GO_MOD = """\
require (
\tgithub.com/aws/aws-sdk-go-v2/service/ec2 v1.2.3
\tgithub.com/aws/aws-sdk-go-v2/service/rds v1.2.3
\tgithub.com/hashicorp/terraform-plugin-go v0.31.0
)
"""


def test_the_list_of_services_names_those_that_are_kept() -> None:
    text = aws_provider.service_list(SERVICE_LIST)
    assert "service/ec2" in text and "ec2.ServicePackage" in text and "internal/conns" in text
    assert "rds" not in text


def test_only_clients_that_somebody_asks_for_are_kept_with_their_imports() -> None:
    used = aws_provider.clients_in_use(
        ["conn := meta.EC2Client(ctx)", "c.LogsClient(ctx)", "func RDSClient() {}"]
    )
    assert used == {"EC2Client", "LogsClient"}
    text = aws_provider.clients(CLIENTS, used)
    assert "func (c *AWSClient) EC2Client" in text and "*cloudwatchlogs.Client" in text
    assert 'service/cloudwatchlogs"' in text and "rds" not in text.lower()


def test_filters_of_services_that_are_left_out_go_with_what_only_they_import() -> None:
    text = aws_provider.filters(FILTERS)
    assert "SecretsManagerFilters" in text and "RDSFilters" not in text
    assert "rdstypes" not in text and '"github.com/aws/aws-sdk-go-v2/aws"' not in text


def test_modules_of_clients_that_nothing_imports_are_not_required() -> None:
    imports = ['import "github.com/aws/aws-sdk-go-v2/service/ec2/types"']
    text = aws_provider.requirements(GO_MOD, imports)
    assert "service/ec2" in text and "terraform-plugin-go" in text and "service/rds" not in text


def test_an_edit_says_where_and_why_it_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.go").write_text("one two two")
    Edit("a.go", "one", "1", "because").apply(tmp_path)
    assert (tmp_path / "a.go").read_text() == "1 two two"
    with pytest.raises(
        ToolchainError, match=r"a\.go holds 'two' 2 times, not 1: .*needs another edit \(because\)"
    ):
        Edit("a.go", "two", "2", "because").apply(tmp_path)
    with pytest.raises(ToolchainError, match=r"gone\.go holds 'x' 0 times"):
        Edit("gone.go", "x", "y", "because").apply(tmp_path)


def test_a_copy_has_no_tests_and_nothing_of_what_is_left_out(tmp_path: Path) -> None:
    for name in ("a.go", "a_test.go", "b/c.go", "testdata/d.go", "b/sweep/e.go"):
        path = tmp_path / "module" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    copy_tree(tmp_path / "module", tmp_path / "copy", frozenset({"testdata", "sweep"}))
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*.go")}
    assert copied == {"a.go", "b/c.go"}


def test_copies_replace_whatever_replaced_the_module_before(tmp_path: Path) -> None:
    text = "module m\n\nreplace example.com/a => example.com/fork v1.0.0\nreplace example.com/b => ../b\n"
    sent = sources.sent_to(text, {"example.com/a": tmp_path})
    assert [line for line in sent.splitlines() if "replace" in line] == [
        "replace example.com/b => ../b",
        f"replace example.com/a => {tmp_path}",
    ]


def test_every_slim_program_has_a_maker_and_is_built_anew_when_it_changes() -> None:
    slim = {program.name: program for program in programs() if program.slim}
    assert slim.keys() == sources.MAKERS.keys()
    assert len({sources.maker_digest(program) for program in slim.values()}) == len(slim)
