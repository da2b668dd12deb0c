"""The messages and services of Pulumi's plugin protocol, as the installed SDK has them.

They are loaded as a package of their own, because `import pulumi` brings the whole SDK with it: a second
of CPU time that every start of this plugin would pay, and the engine starts several.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

_NAME = "lab_pulumi_proto"


def _load() -> Any:
    sdk = importlib.util.find_spec("pulumi")
    if sdk is None or sdk.origin is None:
        raise ImportError("the pulumi package isn't installed")
    folder = Path(sdk.origin).parent / "runtime/proto"
    # Without running its __init__, which imports every service there is.
    spec = importlib.util.spec_from_loader(_NAME, loader=None, is_package=True)
    assert spec is not None
    spec.submodule_search_locations = [str(folder)]
    sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    return {
        name: importlib.import_module(f"{_NAME}.{name}")
        for name in ("engine_pb2", "engine_pb2_grpc", "plugin_pb2", "provider_pb2", "provider_pb2_grpc")
    }


_modules = _load()
engine_pb2: Any = _modules["engine_pb2"]
engine_pb2_grpc: Any = _modules["engine_pb2_grpc"]
plugin_pb2: Any = _modules["plugin_pb2"]
provider_pb2: Any = _modules["provider_pb2"]
provider_pb2_grpc: Any = _modules["provider_pb2_grpc"]
