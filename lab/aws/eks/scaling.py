"""What a node group does about instances that somebody else terminated."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import Call, after
from lab.aws.ec2.tags import backend
from lab.aws.eks import node_workers
from lab.aws.eks.state import all_clusters


@after("ec2", "TerminateInstances")
def replace_lost_instances(call: Call, _: Any) -> None:
    for cluster in all_clusters(call).values():
        for group in cluster.nodegroups.values():
            lost = [one for one in call["InstanceIds"] if one in group.instances]
            if lost:
                names = [one.private_dns_name for one in backend(call).get_multi_instances_by_id(lost)]
                node_workers.lose(call.world, cluster, group, lost, names)
