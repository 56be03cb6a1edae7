"""Names of the accounts that runs draw on."""

from __future__ import annotations


def run_account(root_id: str) -> str:
    """Return the name of the account of a run's tree."""
    return f"run:{root_id}"


def user_account(user_id: str, organization_id: str = "") -> str:
    """Return the name of a user's account in an organization.

    The same user has one account per organization, and a budget applies to one account.
    """
    # The separator is escaped, so that no two pairs of ids share an account.
    organization = organization_id.replace("%", "%25").replace("/", "%2F")
    return f"user:{organization}/{user_id}"


def organization_account(organization_id: str) -> str:
    """Return the name of an organization's account, which all its users share."""
    return f"organization:{organization_id}"


def accounts_of(root_id: str, user_id: str, organization_id: str) -> tuple[str, ...]:
    """Return the accounts that a run's tree draws on: its own, its user's and its organization's."""
    names = [run_account(root_id)]
    if user_id:
        names.append(user_account(user_id, organization_id))
    if organization_id:
        names.append(organization_account(organization_id))
    return tuple(names)
