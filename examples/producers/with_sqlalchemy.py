"""Change a charge and tell its merchant, in one transaction, with SQLAlchemy."""

import os
import sys
from uuid import UUID, uuid4

from sqlalchemy import JSON, create_engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase): ...


class Charge(Base):
    __tablename__ = "charge"
    id: Mapped[str] = mapped_column(primary_key=True)
    merchant_id: Mapped[str]
    status: Mapped[str]


class OutboxEvent(Base):  # what a producer writes of it; the rest has defaults
    __tablename__, __table_args__ = "outbox", {"schema": "webhook"}
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    merchant_id: Mapped[str]
    type: Mapped[str]
    object: Mapped[dict[str, str]] = mapped_column(JSON)


def change(session: Session, charge_id: str, status: str) -> None:
    charge = session.get_one(Charge, charge_id, with_for_update=True)
    charge.status = status
    shown = {"id": charge.id, "status": charge.status}  # all that GET /v1/charges/{id} answers
    session.add(OutboxEvent(merchant_id=charge.merchant_id, type=f"charge.{status}", object=shown))


try:
    with Session(create_engine(os.environ["DATABASE_URL"])) as session, session.begin():
        change(session, *sys.argv[1:])
except IntegrityError as refused:
    sys.exit(f"nothing was changed: {refused.orig}")
