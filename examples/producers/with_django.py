"""Change a charge and tell its merchant, in one transaction, with Django."""

import json
import sys

import dj_database_url
import django
from django.conf import settings
from django.db import IntegrityError, connection, models, transaction

settings.configure(DATABASES={"default": dj_database_url.config()})  # your project has these in settings.py
django.setup()

TELL = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES (%s, %s, %s)"


class Charge(models.Model):
    id = models.TextField(primary_key=True)
    merchant_id = models.TextField()
    status = models.TextField()

    class Meta:
        app_label, db_table = "charges", "charge"


@transaction.atomic
def change(charge_id: str, status: str) -> None:
    charge = Charge.objects.select_for_update().get(pk=charge_id)
    charge.status = status
    charge.save(update_fields=["status"])
    shown = {"id": charge.id, "status": charge.status}  # all that GET /v1/charges/{id} answers
    with connection.cursor() as cursor:  # of the same database as the charge, so of the same transaction
        cursor.execute(TELL, [charge.merchant_id, f"charge.{status}", json.dumps(shown)])


try:
    change(*sys.argv[1:])
except IntegrityError as refused:
    sys.exit(f"nothing was changed: {refused}")
