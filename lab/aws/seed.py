"""What a new world starts with: one IAM user who may do everything, and nothing of AWS's own defaults."""

from __future__ import annotations

from moto import settings
from moto.core.config import default_user_config
from moto.ec2.models import EC2Backend
from moto.iam.models import iam_backends

from lab.settings import ACCOUNT

USER = "lab-admin"
ACCESS_KEY = "LKIALABADMIN00000000"
"""Not AKIA…, so that nobody can take it for a real key (LocalStack's habit)."""
SECRET_KEY = "lab"


def seed() -> None:
    """Make the user, and see to it that no region has a default VPC. Call before anything uses moto."""
    default_user_config["iam"]["load_aws_managed_policies"] = True
    settings.EC2_ENABLE_INSTANCE_TYPE_VALIDATION = True
    EC2Backend.create_default_vpc = _no_default_vpc
    iam = iam_backends[ACCOUNT]["aws"]
    user = iam.create_user("us-east-1", USER)
    key = iam.create_access_key(USER)
    del iam.access_keys[key.access_key_id]
    key.access_key_id, key.secret_access_key = ACCESS_KEY, SECRET_KEY
    iam.access_keys[ACCESS_KEY] = key
    administrator = "arn:aws:iam::aws:policy/AdministratorAccess"
    iam.attach_user_policy(administrator, user.name)


def _no_default_vpc(self: EC2Backend) -> None:
    """moto makes a default VPC with a subnet per zone in each region it touches; this one makes none."""
