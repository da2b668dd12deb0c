"""What the lab itself asks of the emulator, under /_lab/: health, calls, resources, faults, tokens."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from lab.aws.call_log import CallLog
from lab.aws.ec2.capacity import FreeCapacity
from lab.aws.ec2.quotas import Quotas
from lab.aws.eks.authentication import review
from lab.aws.faults import Faults
from lab.aws.sweep import resources
from lab.aws.world import World

log = logging.getLogger(__name__)
Endpoint = Callable[..., Any]


class Console:
    """A small WSGI application; every answer is JSON."""

    def __init__(self, world: World, calls: CallLog, faults: Faults) -> None:
        self.world = world
        self.calls = calls
        self.faults = faults
        self.routes = Map(
            [
                Rule("/_lab/health", methods=["GET"], endpoint=self.health),
                Rule("/_lab/calls", methods=["GET"], endpoint=self.list_calls),
                Rule("/_lab/resources", methods=["GET"], endpoint=self.list_resources),
                Rule("/_lab/authenticate/<cluster>", methods=["POST"], endpoint=self.authenticate),
                Rule("/_lab/capacity", methods=["POST"], endpoint=self.set_capacity),
                Rule("/_lab/quotas", methods=["POST"], endpoint=self.set_quota),
                Rule("/_lab/faults", methods=["GET"], endpoint=self.list_faults),
                Rule("/_lab/faults", methods=["POST"], endpoint=self.add_fault),
                Rule("/_lab/faults", methods=["DELETE"], endpoint=self.clear_faults),
            ]
        )

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        try:
            endpoint, arguments = self.routes.bind_to_environ(environ).match()
            response: Any = _json(endpoint(request, **arguments))
        except NotFound:
            response = _json({"error": f"nothing at {request.path}"}, 404)
        except HTTPException as error:
            response = error
        except (KeyError, TypeError, ValueError) as error:
            response = _json({"error": repr(error)}, 400)
        return response(environ, start_response)

    def health(self, _: Request) -> Any:
        return {
            "status": "ok",
            "lab": self.world.lab.name,
            "pid": os.getpid(),
            "kubernetes": self.world.runtime is not None,
        }

    def list_calls(self, request: Request) -> Any:
        """`?since=N` leaves out the calls up to sequence number N."""
        return self.calls.entries(int(request.args.get("since", 0)))

    def list_resources(self, _: Request) -> Any:
        with self.world.lock:
            return resources(self.world)

    def authenticate(self, request: Request, cluster: str) -> Any:
        """The TokenReview webhook of the clusters' API servers; each has an address of its own."""
        answer = review(self.world, request.get_json(), cluster)
        if error := answer["status"].get("error"):
            log.info("token refused: %s", error)
        return answer

    def set_capacity(self, request: Request) -> Any:
        """Instances outside reservations: {"region", "zone", "type", "instances"}."""
        given = request.get_json()
        with self.world.lock:
            free = self.world.state(FreeCapacity, given["region"]).instances
            free[given["zone"], given["type"]] = int(given["instances"])
            return [{"zone": zone, "type": name, "instances": count} for (zone, name), count in free.items()]

    def set_quota(self, request: Request) -> Any:
        """A service quota's value: {"region", "code", "value"}."""
        given = request.get_json()
        with self.world.lock:
            values = self.world.state(Quotas, given["region"]).values
            values[given["code"]] = int(given["value"])
            return values

    def list_faults(self, _: Request) -> Any:
        return self.faults.list()

    def add_fault(self, request: Request) -> Any:
        self.faults.add(request.get_json())
        return self.faults.list()

    def clear_faults(self, _: Request) -> Any:
        self.faults.clear()
        return []


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status=status, mimetype="application/json")
