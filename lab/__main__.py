"""The local stack's command: `python -m lab up | down | status | env` (the Makefile calls it)."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from lab.cli.errors import LabError
from lab.settings import Lab
from lab.toolchain.errors import ToolchainError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="An AWS-and-EKS on one machine, with the stack `local` on it.",
    epilog='Example: python -m lab up && eval "$(python -m lab env)" && kubectl get nodes',
)
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on standard output.")]


@app.command()
def up(as_json: Json = False) -> None:
    """Bring the local stack up, train on it, and say where the results are."""
    from lab.cli.up import up as bring_up

    report = bring_up(Lab.from_environment(), errors if as_json else console)
    if as_json:
        print(json.dumps({**asdict(report), "nothing_to_do": report.nothing_to_do}))
        return
    _show_outputs(report.outputs)
    if report.nothing_to_do:
        console.print(
            f"Nothing to do: {report.changes.get('same', 0)} resources are as they should be, the job has run."
        )
    else:
        console.print(f"Up in {report.seconds:.0f} s.")
    if report.picture:
        console.print(f"Loss curve: {report.picture}")
    console.print(
        'Next: eval "$(make env)" && kubectl get pods -A, or `make status`; `make down` takes it all away.'
    )


@app.command()
def down(as_json: Json = False) -> None:
    """Destroy the local stack, prove that nothing is left, and stop the lab. The cache stays."""
    from lab.cli.down import down as take_down

    report = take_down(Lab.from_environment(), errors if as_json else console)
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        console.print(f"Down in {report.seconds:.0f} s: {report.deleted} resources deleted, {report.note}.")


@app.command()
def status(as_json: Json = False) -> None:
    """Show what runs, and how far the job is. Exit code 3 when the lab is down."""
    from lab.cli.status import show
    from lab.cli.status import status as find

    found = find(Lab.from_environment())
    if as_json:
        print(json.dumps(found))
    else:
        show(found, console)
    if not found["up"]:
        raise typer.Exit(3)


@app.command()
def tools() -> None:
    """Build or fetch what the lab needs (toolchain and images), and start nothing."""
    from lab.cli.up import tools as ensure

    ensure(Lab.from_environment(), console)


@app.command()
def env() -> None:
    """Print shell exports, so that pulumi, kubectl, aws and promtool talk to the lab."""
    from lab.cli.environment import exports

    print(exports(Lab.from_environment()))


def _show_outputs(outputs: dict[str, object]) -> None:
    from rich.table import Table

    table = Table("output", "value", title="Stack outputs", title_justify="left")
    for name, value in sorted(outputs.items()):
        text = value if isinstance(value, str) else json.dumps(value)
        table.add_row(name, text if len(text) < 160 else text[:157] + "…")
    console.print(table)


def main() -> None:
    """Run a command; problems that it knows are printed without a traceback."""
    try:
        app()
    except LabError as error:
        for problem in error.problems:
            errors.print(f"[red]error:[/red] {problem}", soft_wrap=True)
        sys.exit(error.exit_code)
    except ToolchainError as error:
        errors.print(f"[red]error:[/red] {error}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
