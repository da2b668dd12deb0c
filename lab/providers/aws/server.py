"""The provider protocol: what the engine calls, in terms of the table.

Message formats are those of pulumi's proto/pulumi/provider.proto. Each call runs in a thread of its own,
so independent resources go in parallel.
"""

from __future__ import annotations

import functools
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf import empty_pb2
from google.rpc import status_pb2

from lab.providers.aws import check, lifecycle, wire
from lab.providers.aws.cloud import PROVIDER_TOKEN, Cloud, ConfigurationError, Settings
from lab.providers.aws.convert import Problem
from lab.providers.aws.diff import diff
from lab.providers.aws.engine import Engine
from lab.providers.aws.functions import FUNCTIONS
from lab.providers.aws.lifecycle import Unfinished
from lab.providers.aws.operation import AWS_ERRORS, Failed, Operation, error_text
from lab.providers.aws.protocol import plugin_pb2, provider_pb2, provider_pb2_grpc
from lab.providers.aws.resources import RESOURCES
from lab.providers.aws.state import FAILED, inputs_of, state_of
from lab.providers.aws.table import Resource

Method = Callable[[Any, Any, grpc.ServicerContext], Any]


def _answering(method: Method) -> Method:
    """Turn exceptions into gRPC statuses with a message for a person."""

    @functools.wraps(method)
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except Unfinished as error:
            return _init_failed(context, error, wire.secret_names(_secrets_of(request)))
        except (Failed, ConfigurationError) as error:
            return context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except AWS_ERRORS as error:
            return context.abort(grpc.StatusCode.UNKNOWN, error_text(error))
        except grpc.RpcError:
            raise
        except Exception as error:
            if context.code() is not None:  # an abort of our own, on its way out
                raise
            details = "".join(traceback.format_exception(error))
            return context.abort(grpc.StatusCode.INTERNAL, f"the lab's AWS plugin failed:\n{details}")

    return call


def _secrets_of(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("properties", "inputs", "olds", "old_inputs", "news"):
        if name in request.DESCRIPTOR.fields_by_name:
            for key, value in wire.load(getattr(request, name)).items():
                if wire.has_secret(value):
                    found[key] = value
    return found


def _init_failed(context: grpc.ServicerContext, error: Unfinished, secrets: set[str]) -> Any:
    """The resource exists but isn't right: the engine keeps it in the state with these reasons."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.id, properties=wire.dump(wire.conceal(error.state, secrets)), reasons=error.reasons
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error))
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    return context.abort(grpc.StatusCode.UNKNOWN, str(error))


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """One instance per process; the engine starts one process per provider resource."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cloud: Cloud | None = None
        self._cancelled = threading.Event()

    @property
    def cloud(self) -> Cloud:
        if self._cloud is None:
            raise Failed("the provider isn't configured")
        return self._cloud

    # The provider itself

    @_answering
    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=version("pulumi-aws"))

    @_answering
    def Attach(self, request: Any, context: Any) -> empty_pb2.Empty:
        """The engine found us by PULUMI_DEBUG_PROVIDERS, and says where it is."""
        self._engine = Engine(request.address)
        return empty_pb2.Empty()

    @_answering
    def GetSchema(self, request: Any, context: Any) -> provider_pb2.GetSchemaResponse:
        return provider_pb2.GetSchemaResponse(schema=f'{{"name":"aws","version":"{version("pulumi-aws")}"}}')

    @_answering
    def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        news = wire.load(request.news)
        response = provider_pb2.CheckResponse(inputs=request.news)
        if not wire.has_unknown(news):
            try:
                Settings.parse(wire.reveal(news))
            except ConfigurationError as error:
                response.failures.add(property=error.name, reason=str(error))
        return response

    @_answering
    def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Another region or account means other resources; anything else is just configured anew."""
        before, after = (wire.reveal(wire.load(part)) for part in (request.old_inputs, request.news))
        changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
        response = provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=sorted(changed),
        )
        if before.get("region") and after.get("region") and "region" in changed:
            response.replaces.append("region")
        return response

    @_answering
    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        settings = Settings.parse(wire.reveal(wire.load(request.args)))
        cloud = Cloud(settings)
        cloud.verify_reachable()
        cloud.verify_account()
        self._cloud = cloud
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    # Resources

    @_answering
    def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        news, olds = wire.load(request.news), wire.load(request.olds)
        resource = self._resource(request.urn)
        inputs, problems = check.check(
            resource,
            _name(request.urn),
            news,
            wire.reveal(olds),
            request.randomSeed,
            self._cloud.settings.default_tags if self._cloud else {},
        )
        if wire.has_secret(inputs.get("tags")):
            inputs = wire.conceal(inputs, {"tagsAll"})
        return provider_pb2.CheckResponse(inputs=wire.dump(inputs), failures=_failures(problems))

    @_answering
    def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        resource = self._resource(request.urn)
        before = wire.reveal(wire.load(request.old_inputs))
        after = wire.reveal(wire.load(request.news))
        changes = diff(resource, before, after)
        if wire.load(request.olds).get(FAILED):
            changes.replace_whole(FAILED)
        response = provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME
            if changes.properties
            else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=changes.properties,
            replaces=changes.replaces,
            deleteBeforeReplace=changes.delete_before_replace,
            hasDetailedDiff=True,
        )
        for path, (kind, replaces) in changes.details.items():
            name = f"{kind}_REPLACE" if replaces else kind
            response.detailedDiff[path].CopyFrom(
                provider_pb2.PropertyDiff(kind=provider_pb2.PropertyDiff.Kind.Value(name), inputDiff=True)
            )
        return response

    @_answering
    def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        resource = self._resource(request.urn)
        given = wire.load(request.properties)
        secrets = self._secrets(resource, given)
        if request.preview:
            planned = {name: value for name, value in given.items() if name != "__defaults"}
            for prop in resource.outputs:
                planned[prop.name] = wire.UNKNOWN
            return provider_pb2.CreateResponse(properties=wire.dump(planned))
        inputs = wire.reveal(given)
        operation = self._operation(resource, request, inputs=inputs, changed=frozenset(inputs))
        state = lifecycle.create(operation)
        return provider_pb2.CreateResponse(
            id=operation.id, properties=wire.dump(wire.conceal(state, secrets))
        )

    @_answering
    def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        resource = self._resource(request.urn)
        state, inputs = wire.load(request.properties), wire.load(request.inputs)
        secrets = self._secrets(resource, state, inputs)
        operation = self._operation(resource, request, id=request.id, state=wire.reveal({**inputs, **state}))
        description = lifecycle.describe(operation)
        if description is None:
            return provider_pb2.ReadResponse(id="")
        found = state_of(operation, description)
        wanted = inputs_of(resource, wire.reveal(inputs), found)
        return provider_pb2.ReadResponse(
            id=operation.id,
            properties=wire.dump(wire.conceal(found, secrets)),
            inputs=wire.dump(wire.conceal(wanted, secrets)),
        )

    @_answering
    def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        resource = self._resource(request.urn)
        state, given = wire.load(request.olds), wire.load(request.news)
        secrets = self._secrets(resource, state, given)
        if request.preview:
            planned = {**state, **{name: value for name, value in given.items() if name != "__defaults"}}
            for prop in resource.outputs:
                if prop.volatile:
                    planned[prop.name] = wire.UNKNOWN
            return provider_pb2.UpdateResponse(properties=wire.dump(planned))
        inputs, before = wire.reveal(given), wire.reveal(wire.load(request.old_inputs))
        changed = frozenset(diff(resource, before, inputs).properties)
        operation = self._operation(
            resource, request, id=request.id, inputs=inputs, state=wire.reveal(state), changed=changed
        )
        result = lifecycle.update(operation)
        return provider_pb2.UpdateResponse(properties=wire.dump(wire.conceal(result, secrets)))

    @_answering
    def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        resource = self._resource(request.urn)
        state = wire.reveal({**wire.load(request.old_inputs), **wire.load(request.properties)})
        lifecycle.delete(self._operation(resource, request, id=request.id, state=state))
        return empty_pb2.Empty()

    # The rest

    @_answering
    def Invoke(self, request: Any, context: Any) -> provider_pb2.InvokeResponse:
        function = FUNCTIONS.get(request.tok)
        if function is None:
            raise Failed(
                f"the lab's AWS plugin has no function {request.tok}; "
                f"lab/providers/aws/functions.py has {', '.join(sorted(FUNCTIONS))}"
            )
        return provider_pb2.InvokeResponse(
            **{"return": wire.dump(function(self.cloud, wire.reveal(wire.load(request.args))))}
        )

    @_answering
    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        """Waits end at once, with what exists kept in the state."""
        self._cancelled.set()
        return empty_pb2.Empty()

    def _operation(self, resource: Resource, request: Any, **fields: Any) -> Operation:
        timeout = getattr(request, "timeout", 0)
        return Operation(
            cloud=self.cloud,
            resource=resource,
            deadline=time.monotonic() + timeout if timeout else float("inf"),
            cancelled=self._cancelled,
            progress=self._engine.progress(request.urn),
            **fields,
        )

    @staticmethod
    def _resource(urn: str) -> Resource:
        token = urn.split("::")[2].split("$")[-1]
        if token not in RESOURCES:
            raise Failed(
                f"the lab's AWS plugin has no resource type {token}; a type is one entry in "
                "lab/providers/aws/resources"
            )
        return RESOURCES[token]

    @staticmethod
    def _secrets(resource: Resource, *values: Mapping[str, Any]) -> set[str]:
        """Properties that stay secret: by their nature, and because the program said so."""
        always = {prop.name for prop in (*resource.inputs, *resource.outputs) if prop.secret}
        return wire.secret_names(*values) | always


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _failures(problems: list[Problem]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=problem.path, reason=problem.reason) for problem in problems]


__all__ = ["PROVIDER_TOKEN", "Provider"]
