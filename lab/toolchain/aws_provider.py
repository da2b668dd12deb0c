"""The slimmed copies of terraform-provider-aws and of Pulumi's bridge to it, of which the AWS plugin is built.

terraform-provider-aws serves 250 services; the program uses those of SERVICES. Three files that its own build
generates name every service; here they are written anew with those that are kept. Everything else is the vendor's, but
for the changes of EDITS and ADDED, each with its reason. All of it is under the Mozilla Public License 2.0 (the bridge:
Apache-2.0); licences are copied along, and the changed source stays in the cache beside the program.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from lab.toolchain.copying import Edit, copy_files, copy_tree

PROVIDER = "github.com/hashicorp/terraform-provider-aws"
BRIDGE = "github.com/pulumi/pulumi-terraform-bridge/v3"
SDK = "github.com/hashicorp/terraform-plugin-sdk/v2"
"""In Pulumi's fork, which the bridge needs."""

SERVICES = frozenset(
    {
        "budgets",
        "cloudwatch",
        "ec2",
        "ecr",
        "eks",
        "events",
        "fsx",
        "iam",
        "kms",
        "logs",
        "meta",
        "organizations",
        "s3",
        "s3control",
        "secretsmanager",
        "sns",
        "sts",
    }
)
"""Folders of internal/service that are kept. None of organizations or s3control is served, but ec2 and s3 ask for their
clients, which the provider refuses for a service that isn't registered."""

EDITS = (
    Edit(
        "internal/backoff/backoff.go",
        "return time.After(d)",
        "return time.After(scaled(d))",
        "every wait of the provider ends here: scaled (waits.go) multiplies it by SHARDYARD_AWS_WAIT_FACTOR, so that "
        "the local stack doesn't wait ten minutes before it looks at a deleted file system",
    ),
    Edit(
        "internal/service/s3/tags.go",
        'if accountID := c.AccountID(ctx); accountID != "" {',
        'if accountID := ""; accountID != "" {',
        "tags of buckets go through S3 Control, whose host name begins with the account's number, and "
        "123456789012.127.0.0.1 is no host; the provider's other way, for an unknown account, is S3's own tagging",
        times=2,
    ),
)
ADDED = {
    "shim.go.slim": "shim/shim.go",  # all packages of the provider are internal: nothing outside could import it
    "waits.go.slim": "internal/backoff/waits.go",  # see the first edit
}
SDK_ADDED = {"generate_config.go.slim": "helper/schema/generate_config.go"}
"""A method that the fork lacks and a newer terraform-plugin-go asks for; the bridge never calls it."""
BRIDGE_LEFT_OUT = frozenset({"provider_mux.go", "testdata"})
"""provider_mux.go mixes several providers in one plugin, and imports the code generators of seven languages for it."""

LEFT_OUT = frozenset({"testdata", "test-fixtures", "acctest", "generate", "sweep", "sweep.go", "generate.go"})
SERVICE_LIST = "internal/provider/sdkv2/service_packages_gen.go"
CLIENTS = "internal/conns/awsclient_gen.go"
FILTERS = "internal/namevaluesfilters/service_filters_gen.go"


def copy(download: Callable[[str], Path], target: Path, program: Path) -> dict[str, Path]:
    """Make the copies below `target`; `program` is the plugin's own module.

    Raises ToolchainError if an edit doesn't fit the module.
    """
    upstream, bridge, sdk = target / "upstream", target / "bridge", target / "sdk"
    copy_provider(download(PROVIDER), upstream)
    copy_tree(download(BRIDGE), bridge, BRIDGE_LEFT_OUT)
    copy_tree(download(SDK), sdk)  # go.mod names the fork as what replaces it
    for folder, added in ((upstream, ADDED), (sdk, SDK_ADDED)):
        for name, place in added.items():
            (folder / place).parent.mkdir(exist_ok=True)
            shutil.copyfile(program / name, folder / place)
    for edit in EDITS:
        edit.apply(upstream)
    return {PROVIDER: upstream, BRIDGE: bridge, SDK: sdk}


def copy_provider(module: Path, target: Path) -> None:
    """terraform-provider-aws with the services that are kept, before any edit."""
    target.mkdir(parents=True)
    for name in ("LICENSE", "go.sum"):
        shutil.copyfile(module / name, target / name)
    for folder in ("names", "version"):
        copy_tree(module / folder, target / folder, LEFT_OUT)
    copy_tree(module / "internal", target / "internal", LEFT_OUT | {"service"})
    copy_files(module / "internal/service", target / "internal/service")
    for name in sorted(SERVICES):
        copy_tree(module / "internal/service" / name, target / "internal/service" / name, LEFT_OUT)
    for path, rewrite in ((SERVICE_LIST, service_list), (FILTERS, filters)):
        (target / path).write_text(rewrite((module / path).read_text()))
    used = clients_in_use(path.read_text() for path in target.rglob("*.go") if path != target / CLIENTS)
    (target / CLIENTS).write_text(clients((module / CLIENTS).read_text(), used))
    sources = (path.read_text() for path in target.rglob("*.go"))
    (target / "go.mod").write_text(requirements((module / "go.mod").read_text(), sources))


def service_list(text: str) -> str:
    """The list of service packages, with those that are kept."""
    names = re.compile(rf'\t"{PROVIDER}/internal/service/(\w+)"|\t\t(\w+)\.ServicePackage\(ctx\),')

    def kept(line: str) -> bool:
        found = names.match(line)
        return not found or (found[1] or found[2]) in SERVICES

    return _joined(line for line in text.splitlines() if kept(line))


def clients_in_use(sources: Iterable[str]) -> set[str]:
    """The methods that return a client of AWS's SDK and that somebody calls, by name."""
    return {name for source in sources for name in re.findall(r"\.(\w+Client)\(ctx", source)}


def clients(text: str, used: set[str]) -> str:
    """Only the methods that somebody calls, and the imports that these need."""
    head, *methods = re.split(r"(?m)^(?=func \(c \*AWSClient\) )", text)
    kept = [method for method in methods if method.split(") ")[1].split("(")[0] in used]
    packages = {name for method in kept for name in re.findall(r"\*(\w+)\.Client", method)}
    imported = re.compile(r'\t(?:(\w+) )?"github.com/aws/aws-sdk-go-v2/service/(\w+)"')

    def needed(line: str) -> bool:
        found = imported.match(line)
        return not found or (found[1] or found[2]) in packages

    return _joined(line for line in head.splitlines() if needed(line)) + "\n" + "".join(kept)


def filters(text: str) -> str:
    """The conversions of filters for services that are kept; they bring those services' types with them."""
    head, *functions = re.split(r"(?m)^(?=// \w+ returns \w+ service filters)", text)
    kept = "".join(f for f in functions if re.match(r"// \w+ returns (\w+) ", f)[1] in SERVICES)  # type: ignore[index]
    imported = re.compile(r'\t(\w+ )?"github.com/aws/aws-sdk-go-v2/(?:service/(\w+)/types|aws)"')

    def needed(line: str) -> bool:
        found = imported.match(line)
        return not found or (found[2] in SERVICES if found[2] else "aws.String(" in kept)

    return _joined(line for line in head.splitlines() if needed(line)) + "\n" + kept


def requirements(text: str, sources: Iterable[str]) -> str:
    """go.mod without the clients of services that nothing imports: 230 modules that Go would have to know of."""
    imported = {name for source in sources for name in re.findall(r"aws-sdk-go-v2/service/(\w+)", source)}
    service = re.compile(r"\tgithub.com/aws/aws-sdk-go-v2/service/(\w+) v")

    def needed(line: str) -> bool:
        found = service.match(line)
        return not found or found[1] in imported

    return _joined(line for line in text.splitlines() if needed(line))


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
