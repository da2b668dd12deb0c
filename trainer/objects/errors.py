"""What S3's errors mean: gone, refused, or worth another try."""

from __future__ import annotations

from trainer import exits

PASSING = {
    "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "RequestTimeTooSkewed", "Throttling",
    "ThrottlingException", "TooManyRequests", "ExpiredToken", "OperationAborted", "BadDigest",
    "ConditionalRequestConflict",
}  # fmt: skip
"""S3's error codes that another try may get past ("Error responses", API reference)."""


class Missing(exits.Failure):
    """There is no such object."""


class Exists(exits.Failure):
    """There is such an object already, and there was to be none."""


class Refused(exits.Failure):
    """S3 said no, and will say so again: wrong bucket, no right."""


class Passing(exits.Failure):
    """May go away by itself."""


def judged(error: Exception, what: str) -> exits.Failure | None:
    """What an error of boto3 means (None: it is not one)."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        said = error.response.get("Error", {})
        code = str(said.get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        sentence = f"{what}: {code}: {said.get('Message', '')}"
        if code in PASSING or status >= 500 or status == 429:
            return Passing(sentence)
        if code in ("NoSuchKey", "NotFound", "404"):
            return Missing(sentence)
        if code == "PreconditionFailed":
            return Exists(sentence, exits.CONFIG)
        return Refused(sentence, exits.CONFIG)
    if isinstance(error, (exceptions.NoCredentialsError, exceptions.NoRegionError)):
        return Refused(f"{what}: {error}", exits.CONFIG)
    if isinstance(error, exceptions.BotoCoreError):
        return Passing(f"{what}: {error}")
    return None
