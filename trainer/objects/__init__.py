"""Objects on S3: bounded in rate, tried again with jitter, counted.

boto3 does the signing and the transport. Its own retries are off: they know neither the rate that all processes of a
job share nor how long the caller can wait. Region, credentials and endpoint are found as boto3 finds them
(AWS_REGION here too, which boto3 alone passes over). Needs no torch.
"""

from trainer.objects.address import Address, parse
from trainer.objects.client import MIB, Counts, Entry, Objects
from trainer.objects.errors import Missing, Refused
from trainer.objects.uploads import Sent

__all__ = ["MIB", "Address", "Counts", "Entry", "Missing", "Objects", "Refused", "Sent", "parse"]
