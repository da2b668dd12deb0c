"""How a call of the AWS API is added: a function, and the name of the action above it.

    @action("ec2", "CreatePlacementGroup")
    def create_placement_group(call: Call) -> dict[str, Any]:
        ...
        return {"PlacementGroup": {...}}

The function gets the parameters as boto3 sends them and returns the answer as boto3 shows it; moto parses
and serialises both from botocore's model of the service. Raise `refuse(code, message)` for an error.
`before` adds a rule to a call that moto already answers, `after` a consequence.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
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


Handler = Callable[[Call], Mapping[str, Any] | None]
Check = Callable[[Call], None]
Consequence = Callable[[Call, Any], None]
Service = str
Action = str

_handlers: dict[tuple[Service, Action], Handler] = {}
_checks: dict[tuple[Service, Action], list[Check]] = defaultdict(list)
_consequences: dict[tuple[Service, Action], list[Consequence]] = defaultdict(list)


class Refusal(ServiceException):
    """An error of the API. (moto looks for the error's model by the module of its class: not in moto.core.)"""


# moto warns of codes that botocore's model of the service doesn't list; models leave out many real ones.
warnings.filterwarnings("ignore", message=r"Exception\(Refusal\) with code")


def refuse(code: str, message: str, **fields: Any) -> Refusal:
    """The error to raise; `fields` are further members of the error's shape (EKS has some)."""
    error = Refusal(code, message)
    for name, value in fields.items():
        setattr(error, name, value)
    return error


def action(service: Service, name: Action) -> Callable[[Handler], Handler]:
    """Answer this call with the function, instead of moto's own answer if it has one."""

    def register(handler: Handler) -> Handler:
        _handlers[service, name] = handler
        return handler

    return register


def before(service: Service, *names: Action) -> Callable[[Check], Check]:
    """Run the function before these calls are answered; it refuses them by raising."""

    def register(check: Check) -> Check:
        for name in names:
            _checks[service, name].append(check)
        return check

    return register


def after(service: Service, *names: Action) -> Callable[[Consequence], Consequence]:
    """Run the function after these calls succeeded; it gets the result before it is serialised."""

    def register(consequence: Consequence) -> Consequence:
        for name in names:
            _consequences[service, name].append(consequence)
        return consequence

    return register


def install(world: World) -> None:
    """Put everything registered so far onto moto's response classes."""
    for service, name in {*_handlers, *_checks, *_consequences}:
        module, _, class_name = RESPONSE_CLASSES[service].partition(":")
        responses = getattr(importlib.import_module(module), class_name)
        method = camelcase_to_underscores(name)
        handler = _handlers.get((service, name))
        answer = _answer(world, name, handler) if handler else getattr(responses, method)
        setattr(responses, method, _guarded(world, service, name, answer))


def _call(world: World, name: Action, response: BaseResponse) -> Call:
    # moto parses only for the response classes that asked for it, and EC2's map type has aliases for
    # every key; a plain dict, parsed anew, is the same for all services.
    maps, kept = response.PROTOCOL_PARSER_MAP_TYPE, getattr(response, "params", None)
    response.PROTOCOL_PARSER_MAP_TYPE = dict
    response._get_action()  # matches the path's parameters of the REST services
    response.parse_parameters(response.normalized_request)
    parameters, response.params, response.PROTOCOL_PARSER_MAP_TYPE = response.params, kept, maps
    return Call(
        world=world,
        action=name,
        region=response.region,
        account=response.current_account,
        access_key=response.access_key,
        parameters=parameters or {},
    )


def _answer(world: World, name: Action, handler: Handler) -> Callable[[BaseResponse], ActionResult]:
    def answer(response: BaseResponse) -> ActionResult:
        return ActionResult(handler(_call(world, name, response)))

    return answer


def _guarded(
    world: World, service: Service, name: Action, answer: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    @functools.wraps(answer)
    def method(response: BaseResponse) -> Any:
        for check in _checks[service, name]:
            check(_call(world, name, response))
        result = answer(response)
        for consequence in _consequences[service, name]:
            consequence(
                _call(world, name, response), result.result if isinstance(result, ActionResult) else result
            )
        return result

    return method
