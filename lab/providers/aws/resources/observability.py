"""CloudWatch log groups and alarms, and SNS topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, inputs, out

# Log groups


def _set_retention(operation: Operation) -> None:
    """0 days means for ever, which the API says by having no policy."""
    days = int(operation.inputs.get("retentionInDays") or 0)
    if days:
        operation.call("PutRetentionPolicy", logGroupName=operation.id, retentionInDays=days)
    else:
        operation.call("DeleteRetentionPolicy", logGroupName=operation.id)


def _set_key(operation: Operation) -> None:
    key = operation.inputs.get("kmsKeyId")
    if key:
        operation.call("AssociateKmsKey", logGroupName=operation.id, kmsKeyId=key)
    else:
        operation.call("DisassociateKmsKey", logGroupName=operation.id)


def _read_log_group(operation: Operation) -> Mapping[str, Any] | None:
    """The API only finds by prefix."""
    for page in (
        operation.client().get_paginator("describe_log_groups").paginate(logGroupNamePrefix=operation.id)
    ):
        for group in page["logGroups"]:
            if group["logGroupName"] == operation.id:
                return {**group, "arn": group["arn"].removesuffix(":*")}
    return None


def _delete_log_group(operation: Operation) -> None:
    if not operation.state.get("skipDestroy"):
        operation.call("DeleteLogGroup", logGroupName=operation.id)


LOG_GROUP = Resource(
    "aws:cloudwatch/logGroup:LogGroup",
    service="logs",
    id="{name}",
    inputs=[
        Property("name", api="logGroupName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("logGroupClass", replaces=True, computed=True),
        Property("kmsKeyId"),
        Property("retentionInDays", default=0),
        Property("skipDestroy", default=False, local=True),
    ],
    outputs=[out("arn")],
    create=Call("CreateLogGroup"),
    read=_read_log_group,
    delete=_delete_log_group,
    steps=[
        Step(["retentionInDays"], _set_retention),
        Step(["kmsKeyId"], _set_key, on_create=False),
        Step(["skipDestroy"], lambda operation: None),
    ],
    missing=["ResourceNotFoundException"],
    tags=Tags(
        add="TagResource",
        remove="UntagResource",
        target={"resourceArn": "{arn}"},
        member="tags",
        keys="tagKeys",
        form="map",
        fetch=Call("ListTagsLogGroup", {"logGroupName": "{id}"}, result="tags"),
    ),
    autoname=Autoname(prefix="namePrefix", longest=512),
)

# Alarms


def _alarm_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"dimensions": {each["Name"]: each["Value"] for each in description.get("Dimensions", [])}}


_ALARM_INPUTS = [
    Property("name", api="AlarmName", replaces=True),
    *inputs("comparisonOperator", "evaluationPeriods"),
    *inputs("metricName", "namespace", "period", "statistic", "extendedStatistic", "threshold", "unit"),
    *inputs("alarmDescription", "datapointsToAlarm", "thresholdMetricId"),
    *inputs("alarmActions", "okActions", "insufficientDataActions", default=[]),
    Property("actionsEnabled", default=True),
    Property("treatMissingData", default="missing"),
    Property("evaluateLowSampleCountPercentiles", api="EvaluateLowSampleCountPercentile", computed=True),
    Property("dimensions"),
]


def _put_alarm(operation: Operation) -> str:
    parameters = operation.parameters(Call("PutMetricAlarm"), _ALARM_INPUTS)
    tags = [{"Key": key, "Value": value} for key, value in sorted((operation.value("tagsAll") or {}).items())]
    if tags and not operation.id:  # of an alarm that exists CloudWatch ignores them
        parameters["Tags"] = tags
    operation.created = operation.call("PutMetricAlarm", **parameters)
    return str(operation.value("name"))


METRIC_ALARM = Resource(
    "aws:cloudwatch/metricAlarm:MetricAlarm",
    service="cloudwatch",
    id="{name}",
    inputs=_ALARM_INPUTS,
    outputs=[out("arn", "AlarmArn")],
    create=_put_alarm,
    checked_by="PutMetricAlarm",
    read=Call("DescribeAlarms", {"AlarmNames": ["{id}"]}, result="MetricAlarms[0]"),
    delete=Call("DeleteAlarms", {"AlarmNames": ["{id}"]}),
    steps=[Step([prop.name for prop in _ALARM_INPUTS[1:]], _put_alarm, on_create=False)],
    extend=_alarm_properties,
    missing=["ResourceNotFound"],
    tags=Tags(
        add="TagResource",
        remove="UntagResource",
        target={"ResourceARN": "{arn}"},
        fetch=Call("ListTagsForResource", {"ResourceARN": "{arn}"}, result="Tags"),
    ),
    autoname=Autoname(),
)

# Topics

_ATTRIBUTES = {
    "displayName": "DisplayName",
    "policy": "Policy",
    "deliveryPolicy": "DeliveryPolicy",
    "kmsMasterKeyId": "KmsMasterKeyId",
}


def _set_attributes(operation: Operation) -> None:
    for name, attribute in _ATTRIBUTES.items():
        given = operation.inputs.get(name)
        if name in operation.changed and (given is not None or operation.state.get(name) is not None):
            operation.call(
                "SetTopicAttributes",
                TopicArn=operation.id,
                AttributeName=attribute,
                AttributeValue=str(given or ""),
            )


def _create_topic(operation: Operation) -> str:
    tags = [{"Key": key, "Value": value} for key, value in (operation.value("tagsAll") or {}).items()]
    fifo = {"FifoTopic": "true"} if operation.inputs.get("fifoTopic") else {}
    operation.created = operation.call(
        "CreateTopic", Name=operation.value("name"), Attributes=fifo, Tags=tags
    )
    operation.id = operation.created["TopicArn"]
    _set_attributes(operation)
    return operation.id


def _topic_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    name = operation.id.rpartition(":")[2]
    return {"name": name, "arn": operation.id, "fifoTopic": name.endswith(".fifo")}


TOPIC = Resource(
    "aws:sns/topic:Topic",
    service="sns",
    id="",
    inputs=[
        Property("name", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("displayName", default=""),
        Property("policy", json=True, computed=True),
        Property("deliveryPolicy", json=True),
        Property("kmsMasterKeyId"),
        Property("fifoTopic", replaces=True, default=False),
    ],
    outputs=[out("arn", "TopicArn"), out("owner", "Owner")],
    create=_create_topic,
    checked_by="CreateTopic",
    read=Call("GetTopicAttributes", {"TopicArn": "{id}"}, result="Attributes"),
    delete=Call("DeleteTopic", {"TopicArn": "{id}"}),
    steps=[Step([*_ATTRIBUTES], _set_attributes, on_create=False)],
    extend=_topic_properties,
    missing=["NotFound", "NotFoundException"],
    tags=Tags(
        add="TagResource",
        remove="UntagResource",
        target={"ResourceArn": "{id}"},
        fetch=Call("ListTagsForResource", {"ResourceArn": "{id}"}, result="Tags"),
    ),
    autoname=Autoname(prefix="namePrefix", longest=256),
)

TOPIC_SUBSCRIPTION = Resource(
    "aws:sns/topicSubscription:TopicSubscription",
    service="sns",
    id="SubscriptionArn",
    inputs=[
        Property("topic", api="TopicArn", replaces=True),
        *inputs("protocol", "endpoint", replaces=True),
    ],
    outputs=[out("arn", "SubscriptionArn"), out("ownerId", "Owner"), out("pendingConfirmation")],
    create=Call("Subscribe", {"ReturnSubscriptionArn": True}),
    read=Call("GetSubscriptionAttributes", {"SubscriptionArn": "{id}"}, result="Attributes"),
    delete=Call("Unsubscribe", {"SubscriptionArn": "{id}"}),
    missing=["NotFound", "NotFoundException"],
)

RESOURCES = [LOG_GROUP, METRIC_ALARM, TOPIC, TOPIC_SUBSCRIPTION]
