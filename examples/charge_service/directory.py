"""Recipients, customers and merchants: kept and shown as they were sent, each merchant's own.

In memory, and without rules: who may receive money, or has a fiscal profile, is chosen by ids (ledger.py);
a real service looks it up here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from examples.charge_service import fields, problems
from examples.charge_service.ledger import Fields, name_of
from examples.charge_service.problems import Refused


@dataclass
class Directory:
    """Who takes part in charges. The first argument is who asks, the last one what was sent."""

    _recipients: dict[str, dict[str, Fields]] = field(default_factory=dict)
    _customers: dict[tuple[str, str], Fields] = field(default_factory=dict)
    _merchants: dict[str, Fields] = field(default_factory=dict)

    def add_recipient(self, merchant_id: str, key: str, body: Mapping[str, Any]) -> Fields:
        """Add a recipient; its id follows from the key."""
        added = {"id": f"rcp_{name_of(key, 'recipient').hex[:20]}", **fields.named(body)}
        self._recipients.setdefault(merchant_id, {})[added["id"]] = added
        return added

    def list_recipients(self, merchant_id: str, _named: str, _body: Mapping[str, Any]) -> list[Fields]:
        """List a merchant's recipients."""
        return [*self._recipients.get(merchant_id, {}).values()]

    def recipient(self, merchant_id: str, recipient_id: str, _body: Mapping[str, Any]) -> Fields:
        """Show a recipient; another merchant's is not there."""
        try:
            return self._recipients[merchant_id][recipient_id]
        except KeyError:
            raise Refused(problems.RECIPIENT_NOT_FOUND) from None

    def change_recipient(self, merchant_id: str, recipient_id: str, body: Mapping[str, Any]) -> Fields:
        """Give a recipient another name."""
        changed = {**self.recipient(merchant_id, recipient_id, {}), **fields.named(body)}
        self._recipients[merchant_id][recipient_id] = changed
        return changed

    def add_customer(self, merchant_id: str, _key: str, body: Mapping[str, Any]) -> Fields:
        """Add a customer, or replace it."""
        added = fields.new_customer(body)
        self._customers[merchant_id, added["externalUserId"]] = added
        return added

    def customer(self, merchant_id: str, external_user_id: str, _body: Mapping[str, Any]) -> Fields:
        """Show a customer; another merchant's is not there."""
        try:
            return self._customers[merchant_id, external_user_id]
        except KeyError:
            raise Refused(problems.CUSTOMER_NOT_FOUND) from None

    def change_customer(self, merchant_id: str, external_user_id: str, body: Mapping[str, Any]) -> Fields:
        """Give a customer another name."""
        changed = {**self.customer(merchant_id, external_user_id, {}), **fields.named(body)}
        self._customers[merchant_id, external_user_id] = changed
        return changed

    def merchant(self, merchant_id: str, named: str, _body: Mapping[str, Any]) -> Fields:
        """Show the merchant that asks; any other is not there."""
        if named != merchant_id:
            raise Refused(problems.MERCHANT_NOT_FOUND)
        return self._merchants.get(merchant_id, {"id": merchant_id})

    def change_merchant(self, merchant_id: str, named: str, body: Mapping[str, Any]) -> Fields:
        """Give the merchant a name."""
        self._merchants[merchant_id] = {**self.merchant(merchant_id, named, {}), **fields.named(body)}
        return self._merchants[merchant_id]

    def put_fiscal_profile(self, merchant_id: str, named: str, body: Mapping[str, Any]) -> Fields:
        """Set by which number the merchant's receipts are issued."""
        merchant = self.merchant(merchant_id, named, {})
        self._merchants[merchant_id] = {**merchant, "fiscalProfile": fields.fiscal_profile(body)}
        return self._merchants[merchant_id]
