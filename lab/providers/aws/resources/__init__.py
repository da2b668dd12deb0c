"""The table: every resource type that the plugin knows, by token.

To add a type, write one `Resource` in the file of its service, like the ones there, and list it in that
file's RESOURCES. tests/lab/providers/test_table.py compares the names with pulumi_aws's own classes.
"""

from __future__ import annotations

from lab.providers.aws.resources import (
    budgets,
    capacity,
    ecr,
    eks_access,
    eks_addons,
    eks_clusters,
    eks_node_groups,
    endpoints,
    fsx,
    iam,
    kms,
    launch_template,
    observability,
    routes,
    s3,
    secrets,
    security_group_rules,
    security_groups,
    vpc,
)
from lab.providers.aws.table import Resource

RESOURCES: dict[str, Resource] = {
    resource.token: resource
    for module in (
        budgets,
        capacity,
        ecr,
        eks_access,
        eks_addons,
        eks_clusters,
        eks_node_groups,
        endpoints,
        fsx,
        iam,
        kms,
        launch_template,
        observability,
        routes,
        s3,
        secrets,
        security_group_rules,
        security_groups,
        vpc,
    )
    for resource in module.RESOURCES
}
