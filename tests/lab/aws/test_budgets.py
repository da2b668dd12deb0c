"""Budgets and their notifications."""

from __future__ import annotations

from typing import Any

from tests.lab.aws.support import Emulator, refused

ACCOUNT = "123456789012"


def test_a_budget_and_its_notifications_can_be_changed(emulator: Emulator) -> None:
    client = emulator.client("budgets")
    named = {"AccountId": ACCOUNT, "BudgetName": "training"}
    budget = {"BudgetName": "training", "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    limit = {"BudgetLimit": {"Amount": "1000", "Unit": "USD"}}
    notice: dict[str, Any] = {
        "NotificationType": "ACTUAL",
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": 80.0,
    }
    mail = {"SubscriptionType": "EMAIL", "Address": "someone@example.com"}
    both = [{"Notification": notice, "Subscribers": [mail]}]
    client.create_budget(AccountId=ACCOUNT, Budget=budget | limit, NotificationsWithSubscribers=both)
    assert (
        refused(client.create_budget, AccountId=ACCOUNT, Budget=budget | limit) == "DuplicateRecordException"
    )
    client.update_budget(
        AccountId=ACCOUNT, NewBudget=budget | {"BudgetLimit": {"Amount": "5", "Unit": "USD"}}
    )
    assert client.describe_budget(**named)["Budget"]["BudgetLimit"]["Amount"] == "5"
    later = notice | {"Threshold": 90.0}
    client.update_notification(**named, OldNotification=notice, NewNotification=later)
    found = client.describe_notifications_for_budget(**named)["Notifications"]
    assert [one["Threshold"] for one in found] == [90.0]
    assert client.describe_subscribers_for_notification(**named, Notification=later)["Subscribers"] == [mail]
    client.delete_notification(**named, Notification=later)
    assert client.describe_notifications_for_budget(**named)["Notifications"] == []
    client.delete_budget(**named)
    assert refused(client.describe_budget, **named) == "NotFoundException"
