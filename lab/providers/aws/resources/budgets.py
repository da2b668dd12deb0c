"""AWS Budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, inputs, out


def _budget(operation: Operation) -> dict[str, Any]:
    given = operation.inputs
    budget: dict[str, Any] = {
        "BudgetName": operation.value("name"),
        "BudgetType": given["budgetType"],
        "TimeUnit": given["timeUnit"],
    }
    if given.get("limitAmount") is not None:
        budget["BudgetLimit"] = {"Amount": str(given["limitAmount"]), "Unit": given["limitUnit"]}
    filters = given.get("costFilters") or []
    if filters:
        budget["CostFilters"] = {each["name"]: each["values"] for each in filters}
    if given.get("timePeriodStart"):
        start = given["timePeriodStart"].replace("_", "T") + ":00Z"
        budget["TimePeriod"] = {"Start": start}
    return budget


def _notification(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """One of pulumi-aws's notifications as the API's notification and its subscribers."""
    notification = {
        "NotificationType": given["notificationType"],
        "ComparisonOperator": given["comparisonOperator"],
        "Threshold": float(given["threshold"]),
        "ThresholdType": given["thresholdType"],
    }
    addresses = {"EMAIL": "subscriberEmailAddresses", "SNS": "subscriberSnsTopicArns"}
    subscribers = [
        {"SubscriptionType": kind, "Address": address}
        for kind, name in addresses.items()
        for address in given.get(name) or []
    ]
    return notification, subscribers


def _account(operation: Operation) -> str:
    return str(operation.value("accountId") or operation.cloud.account)


def _create(operation: Operation) -> str:
    pairs = [_notification(each) for each in operation.inputs.get("notifications") or []]
    operation.created = operation.call(
        "CreateBudget",
        AccountId=_account(operation),
        Budget=_budget(operation),
        NotificationsWithSubscribers=[{"Notification": one, "Subscribers": who} for one, who in pairs],
        ResourceTags=[
            {"Key": key, "Value": value} for key, value in (operation.value("tagsAll") or {}).items()
        ],
    )
    return f"{_account(operation)}:{operation.value('name')}"


def _names(operation: Operation) -> dict[str, str]:
    account, _, name = operation.id.partition(":")
    return {"AccountId": account, "BudgetName": name}


def _read(operation: Operation) -> Mapping[str, Any] | None:
    names = _names(operation)
    found: Mapping[str, Any] = operation.call("DescribeBudget", **names)["Budget"]
    notifications = []
    for one in operation.call("DescribeNotificationsForBudget", **names).get("Notifications", []):
        key = {member: one[member] for member in _NOTIFICATION if member in one}
        answer = operation.call("DescribeSubscribersForNotification", **names, Notification=key)
        notifications.append((one, answer.get("Subscribers", [])))
    return {**found, "_notifications": notifications, "AccountId": names["AccountId"]}


_NOTIFICATION = ("NotificationType", "ComparisonOperator", "Threshold", "ThresholdType")


def _properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    limit = description.get("BudgetLimit") or {}
    return {
        "accountId": description["AccountId"],
        "arn": operation.arn("budgets", f"budget/{description['BudgetName']}", region=False),
        "limitAmount": limit.get("Amount"),
        "limitUnit": limit.get("Unit"),
        "costFilters": [
            {"name": name, "values": values}
            for name, values in (description.get("CostFilters") or {}).items()
        ],
        "notifications": [
            {
                **{member[0].lower() + member[1:]: one.get(member) for member in _NOTIFICATION},
                "thresholdType": one.get("ThresholdType", "PERCENTAGE"),
                "subscriberEmailAddresses": [w["Address"] for w in who if w["SubscriptionType"] == "EMAIL"],
                "subscriberSnsTopicArns": [w["Address"] for w in who if w["SubscriptionType"] == "SNS"],
            }
            for one, who in description["_notifications"]
        ],
        "timePeriodStart": operation.value("timePeriodStart"),
    }


def _update(operation: Operation) -> None:
    names = _names(operation)
    operation.call("UpdateBudget", AccountId=names["AccountId"], NewBudget=_budget(operation))
    if "notifications" in operation.changed:
        for old in operation.state.get("notifications") or []:
            operation.call("DeleteNotification", **names, Notification=_notification(old)[0])
        for new in operation.inputs.get("notifications") or []:
            one, who = _notification(new)
            operation.call("CreateNotification", **names, Notification=one, Subscribers=who)


_CHANGEABLE = (
    "budgetType",
    "timeUnit",
    "limitAmount",
    "limitUnit",
    "costFilters",
    "notifications",
    "timePeriodStart",
)

BUDGET = Resource(
    "aws:budgets/budget:Budget",
    service="budgets",
    id="",
    inputs=[
        Property("name", read="BudgetName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("accountId", replaces=True, computed=True),
        *inputs("budgetType", "timeUnit"),
        *inputs("limitAmount", "limitUnit", "costFilters", "timePeriodStart", computed=True),
        Property("notifications"),
    ],
    outputs=[out("arn")],
    create=_create,
    read=_read,
    delete=lambda operation: operation.call("DeleteBudget", **_names(operation)),
    steps=[Step(_CHANGEABLE, _update, on_create=False)],
    extend=_properties,
    missing=["NotFoundException"],
    tags=Tags(
        add="TagResource",
        remove="UntagResource",
        target={"ResourceARN": "{arn}"},
        keys="ResourceTagKeys",
        fetch=Call("ListTagsForResource", {"ResourceARN": "{arn}"}, result="ResourceTags"),
    ),
    autoname=Autoname(prefix="namePrefix", longest=100),
    regional=False,
)

RESOURCES = [BUDGET]
