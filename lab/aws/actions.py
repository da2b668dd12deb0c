"""How an operation of the AWS API is added: a function, and the name of the operation above it.

    @action("ec2", "CreatePlacementGroup")
    def create_placement_group(call: Call) -> dict[str, Any]:
        ...
        return {"PlacementGroup": {...}}

The function gets the parameters as boto3 sends them and returns the answer as boto3 shows it; both are parsed
and serialised from botocore's model of the service. Raise `ApiError(code, message)` for an error.
`before` adds a check to an operation, whether moto answers it or a function here; `after` a consequence.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores

from lab.aws.world import World

RESPONSE_CLASSES = {
    "budgets": "moto.budgets.responses:BudgetsResponse",
    "ec2": "moto.ec2.responses:EC2Response",
    "ecr": "moto.ecr.responses:ECRResponse",
    "eks": "moto.eks.responses:EKSResponse",
    "fsx": "moto.fsx.responses:FSxResponse",
    "iam": "moto.iam.responses:IamResponse",
    "kms": "moto.kms.responses:KmsResponse",
    "logs": "moto.logs.responses:LogsResponse",
    "resource-groups": "moto.resourcegroups.responses:ResourceGroupsResponse",
    "servicequotas": "moto.servicequotas.responses:ServiceQuotasResponse",
    "ssm": "moto.ssm.responses:SimpleSystemManagerResponse",
    "sts": "moto.sts.responses:TokenResponse",
}
"""moto's classes, by the name that the service signs with: their results can be changed by `after`."""


@dataclass(frozen=True)
class Call:
    """One call of the API: who makes it, where, and with what."""

    world: World
    action: str
    region: str
    account: str
    access_key: str
    parameters: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def get(self, name: str, default: Any = None) -> Any:
        value = self.parameters.get(name)
        return default if value is None else value

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"


Handler = Callable[[Call], Any]
Check = Callable[[Call], None]
Consequence = Callable[[Call, Any], None]
Service = str
Action = str

_handlers: dict[tuple[Service, Action], Handler] = {}
_checks: dict[tuple[Service, Action], list[Check]] = defaultdict(list)
_consequences: dict[tuple[Service, Action], list[Consequence]] = defaultdict(list)
_current: ContextVar[Call] = ContextVar("call that moto answers")


class ApiError(ServiceException):
    """An error of the API. `fields` are further members of the error's shape (EKS has some).

    (moto looks for the error's model by the module of its class: not in moto.core.)
    """

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(code, message)
        for name, value in fields.items():
            setattr(self, name, value)


# moto warns of codes that botocore's model of the service doesn't list; models leave out many real ones.
warnings.filterwarnings("ignore", message=r"Exception\(ApiError\) with code")


def action(service: Service, *names: Action) -> Callable[[Handler], Handler]:
    """Answer these calls with the function, instead of moto's own answer if it has one."""

    def register(handler: Handler) -> Handler:
        for name in names:
            _handlers[service, name] = handler
        return handler

    return register


def before(service: Service, *names: Action) -> Callable[[Check], Check]:
    """Run the function before these calls are answered; it fails them by raising ApiError."""

    def register(check: Check) -> Check:
        for name in names:
            _checks[service, name].append(check)
        return check

    return register


def after(service: Service, *names: Action) -> Callable[[Consequence], Consequence]:
    """Run the function after these calls succeeded; it gets the result before it is serialised.

    S3's results can't be had from moto: there the function gets None.
    """

    def register(consequence: Consequence) -> Consequence:
        for name in names:
            _consequences[service, name].append(consequence)
        return consequence

    return register


def handler_of(service: Service, name: Action) -> Handler | None:
    return _handlers.get((service, name))


def run_checks(service: Service, call: Call) -> None:
    for check in _checks.get((service, call.action), ()):
        check(call)


def run_consequences(service: Service, call: Call, result: Any) -> None:
    for consequence in _consequences.get((service, call.action), ()):
        consequence(call, result)


def response_class(service: Service) -> Any:
    """moto's class for the service, or None if nothing here needs it."""
    module, _, name = RESPONSE_CLASSES.get(service, "").partition(":")
    return getattr(importlib.import_module(module), name) if module else None


def install() -> None:
    """Have moto's answers run the consequences registered so far."""
    for service, name in _consequences:
        if (service, name) not in _handlers and (responses := response_class(service)):
            method = camelcase_to_underscores(name)
            setattr(responses, method, _with_consequences(service, name, getattr(responses, method)))


def answered_by_moto(call: Call, ask: Callable[[], Any]) -> Any:
    """What `ask` returns; while it runs, consequences find the call."""
    token = _current.set(call)
    try:
        return ask()
    finally:
        _current.reset(token)


def _with_consequences(service: Service, name: Action, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(answer)
    def method(response: Any) -> Any:
        result = answer(response)
        call = _current.get()
        if call.action == name:
            run_consequences(service, call, result.result if isinstance(result, ActionResult) else result)
        return result

    return method
