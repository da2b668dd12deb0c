"""Budgets with their notifications and subscribers (moto can't change them)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lab.aws.actions import ApiError, Call, action

END = datetime(2087, 6, 15, tzinfo=UTC)
"""What AWS gives a budget without an end."""
COST_TYPES = {
    "IncludeTax": True,
    "IncludeSubscription": True,
    "UseBlended": False,
    "IncludeRefund": True,
    "IncludeCredit": True,
    "IncludeUpfront": True,
    "IncludeRecurring": True,
    "IncludeOtherSubscription": True,
    "IncludeSupport": True,
    "IncludeDiscount": True,
    "UseAmortized": False,
}


@dataclass
class Notice:
    notification: dict[str, Any]
    subscribers: list[dict[str, str]]


@dataclass
class Budget:
    settings: dict[str, Any]
    notices: list[Notice]
    tags: dict[str, str]
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Budgets:
    """By name; budgets belong to the account, not to a region."""

    budgets: dict[str, Budget] = field(default_factory=dict)


def _all(call: Call) -> dict[str, Budget]:
    return call.world.state(Budgets, "global").budgets


def _find(call: Call, name: str | None = None) -> Budget:
    name = name or call["BudgetName"]
    if name not in _all(call):
        raise ApiError("NotFoundException", f"Unable to get budget: {name} - the budget doesn't exist.")
    return _all(call)[name]


def _key(notification: dict[str, Any]) -> tuple[Any, ...]:
    kind = notification.get("ThresholdType", "PERCENTAGE")
    return (
        notification["NotificationType"],
        notification["ComparisonOperator"],
        float(notification["Threshold"]),
        kind,
    )


def _notice(call: Call, notification: dict[str, Any]) -> Notice:
    for notice in _find(call).notices:
        if _key(notice.notification) == _key(notification):
            return notice
    raise ApiError("NotFoundException", "Unable to find the notification.")


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    start = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return {
        "CostTypes": COST_TYPES,
        "CostFilters": {},
        "CalculatedSpend": {"ActualSpend": {"Amount": "0", "Unit": "USD"}},
        **given,
        "TimePeriod": {"Start": start, "End": END, **given.get("TimePeriod", {})},
    }


@action("budgets", "CreateBudget")
def create_budget(call: Call) -> dict[str, Any]:
    given = call["Budget"]
    if given["BudgetName"] in _all(call):
        raise ApiError(
            "DuplicateRecordException",
            f"Error creating budget: {given['BudgetName']} - the budget already exists.",
        )
    _all(call)[given["BudgetName"]] = Budget(
        settings=_settings(given),
        notices=[
            Notice(one["Notification"], list(one.get("Subscribers", [])))
            for one in call.get("NotificationsWithSubscribers", [])
        ],
        tags={tag["Key"]: tag["Value"] for tag in call.get("ResourceTags", [])},
    )
    return {}


def _described(budget: Budget) -> dict[str, Any]:
    return {**budget.settings, "LastUpdatedTime": budget.updated}


@action("budgets", "DescribeBudget")
def describe_budget(call: Call) -> dict[str, Any]:
    return {"Budget": _described(_find(call))}


@action("budgets", "DescribeBudgets")
def describe_budgets(call: Call) -> dict[str, Any]:
    return {"Budgets": [_described(budget) for budget in _all(call).values()]}


@action("budgets", "UpdateBudget")
def update_budget(call: Call) -> dict[str, Any]:
    budget = _find(call, call["NewBudget"]["BudgetName"])
    budget.settings, budget.updated = _settings(call["NewBudget"]), datetime.now(UTC)
    return {}


@action("budgets", "DeleteBudget")
def delete_budget(call: Call) -> dict[str, Any]:
    _find(call)
    del _all(call)[call["BudgetName"]]
    return {}


@action("budgets", "DescribeNotificationsForBudget")
def describe_notifications_for_budget(call: Call) -> dict[str, Any]:
    return {"Notifications": [{"NotificationState": "OK", **one.notification} for one in _find(call).notices]}


@action("budgets", "CreateNotification")
def create_notification(call: Call) -> dict[str, Any]:
    notices = _find(call).notices
    if any(_key(one.notification) == _key(call["Notification"]) for one in notices):
        raise ApiError(
            "DuplicateRecordException", "Error creating notification - the notification already exists."
        )
    notices.append(Notice(call["Notification"], list(call["Subscribers"])))
    return {}


@action("budgets", "UpdateNotification")
def update_notification(call: Call) -> dict[str, Any]:
    _notice(call, call["OldNotification"]).notification = call["NewNotification"]
    return {}


@action("budgets", "DeleteNotification")
def delete_notification(call: Call) -> dict[str, Any]:
    _find(call).notices.remove(_notice(call, call["Notification"]))
    return {}


@action("budgets", "DescribeSubscribersForNotification")
def describe_subscribers_for_notification(call: Call) -> dict[str, Any]:
    return {"Subscribers": _notice(call, call["Notification"]).subscribers}


@action("budgets", "CreateSubscriber")
def create_subscriber(call: Call) -> dict[str, Any]:
    _notice(call, call["Notification"]).subscribers.append(call["Subscriber"])
    return {}


@action("budgets", "DeleteSubscriber")
def delete_subscriber(call: Call) -> dict[str, Any]:
    subscribers = _notice(call, call["Notification"]).subscribers
    if call["Subscriber"] not in subscribers:
        raise ApiError("NotFoundException", "Unable to find the subscriber.")
    subscribers.remove(call["Subscriber"])
    return {}


def _tags(call: Call) -> dict[str, str]:
    return _find(call, call["ResourceARN"].rpartition("budget/")[2]).tags


@action("budgets", "TagResource")
def tag_resource(call: Call) -> dict[str, Any]:
    _tags(call).update({tag["Key"]: tag["Value"] for tag in call["ResourceTags"]})
    return {}


@action("budgets", "UntagResource")
def untag_resource(call: Call) -> dict[str, Any]:
    for key in call["ResourceTagKeys"]:
        _tags(call).pop(key, None)
    return {}


@action("budgets", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> dict[str, Any]:
    return {"ResourceTags": [{"Key": key, "Value": value} for key, value in _tags(call).items()]}
