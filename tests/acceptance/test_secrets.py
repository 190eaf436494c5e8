"""Secrets stay sealed: in a dump, in logs, and when the key to them is missing. Source: contract 5."""

import base64
import re
import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.acceptance.api_merchant import start_api
from tests.acceptance.console_people import start_console
from tests.acceptance.installation import ENDPOINT, SEALS, Installation, make_key
from tests.acceptance.supervised_processes import start_processes
from tests.servers import client
from tests.waiting import MAX_WAIT, until_equal, until_found
from webhook_dispatcher.cli.session import operator
from webhook_dispatcher.domain.signing import Keyring, Secret
from webhook_dispatcher.local.arrivals import Signature, out_of_order
from webhook_dispatcher.local.behaviour import Behaviour


def dump(installation: Installation) -> str:
    """Dump the whole database as SQL."""
    command = [str(client("pg_dump")), installation.database.dsn("postgres")]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=MAX_WAIT)
    assert "COPY webhook.endpoint" in dumped.stdout
    return dumped.stdout


def forms_of(secret: str) -> list[str]:
    """Return what must appear nowhere: the secret, its random part, and its bytes as a dump writes them."""
    return [secret, secret.removeprefix("whsec_"), secret.encode().hex()]


async def test_whoever_makes_a_secret_makes_it_padded_and_of_the_standard_alphabet(
    installation: Installation,
) -> None:
    """The command line, the Partner API and the console, each as an endpoint is set and as it is rotated."""
    await installation.start()
    await installation.until_true(SEALS)
    url = installation.receiver.url("m1")
    texts = [
        installation.command("endpoint", "set", "m1", url).stdout,
        installation.command("endpoint", "rotate-secret", "m1", "--json").stdout,
    ]
    api, console = await start_api(installation), await start_console(installation)
    async with api.merchant("m2") as merchant, console.person() as person:
        texts.append((await merchant.ask("PUT", "/v1/webhook", {"url": url})).body.decode())
        texts.append((await merchant.ask("POST", "/v1/webhook/secret", {})).body.decode())
        texts.append((await person.post("/merchants/m3/endpoint", {"url": url})).text)
        created = re.findall(r'name="created" value="([^"]+)"', (await person.get("/merchants/m3")).text)
        form = {"created": created[0], "overlap": ""}
        texts.append((await person.post("/merchants/m3/secret", form)).text)
    made = [re.findall(r'whsec_[^\s"<]+', text) for text in texts]
    assert [len(secrets) for secrets in made] == [1] * 6
    for [secret] in made:
        assert re.fullmatch("whsec_[A-Za-z0-9+/]{43}=", secret)
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32


async def test_neither_a_dump_nor_a_log_at_debug_level_holds_a_secret(installation: Installation) -> None:
    first = installation.command("endpoint", "set", "m1", installation.receiver.url("m1"), LOG_LEVEL="debug")
    secret = first.stdout.split()[-1]
    installation.receiver.secrets["m1"] = Secret(secret)
    daemon = await installation.start()
    await installation.emit("m1")
    await installation.all_delivered(1)
    rotated = installation.command("endpoint", "rotate-secret", "m1", "--overlap", "PT1H")
    newer = rotated.stdout.split()[-1]
    installation.receiver.behave("m1", Behaviour(status=500), Behaviour())
    failed = await installation.emit("m1")
    await installation.settled(failed.id, "pending_retry", 1)
    await installation.do("retry", event_id=failed.id)
    await installation.settled(failed.id, "delivered", 2)
    await installation.do("test_event", "m1")
    # Sealed with a key that the daemon lacks: it says so, and no more.
    daemon.kill()
    other = await installation.start(SECRET_KEYS=make_key("k2"))
    await installation.emit("m1")
    await other.logged("key.missing")

    assert newer != secret
    assert {arrival.signature for arrival in installation.receiver.arrivals} == {Signature.RIGHT}
    logs = [path.read_text() for path in Path(installation.folder).glob("daemon-*.log")]
    server_log = installation.database.server.log_file.read_text()
    texts = [dump(installation), *logs, server_log, first.stderr, rotated.stderr]
    key = installation.key.partition(":")[2]
    for hidden in [*forms_of(secret), *forms_of(newer), key]:
        assert [text for text in texts if hidden in text] == []


async def test_lanes_wait_for_a_key_that_is_missing_and_nothing_fails(installation: Installation) -> None:
    await installation.configure("m1")
    first_key, installation.key = installation.key, make_key("k2")
    await installation.configure("m2")
    sent = await installation.emit_each(["m1", "m2"], 3)
    daemon = await installation.start(SECRET_KEYS=make_key("k3"))
    missing = "encryption key 'k1' is missing\nencryption key 'k2' is missing\n"
    await until_equal(lambda: daemon.asked("/readyz"), (503, missing))
    assert {entry["key_id"] for entry in daemon.log("key.missing")} == {"k1", "k2"}
    daemon.terminate()
    assert await daemon.ended() == 0
    assert installation.receiver.arrivals == []
    assert await installation.count("state = 'pending' AND attempts = 0") == 6

    # A lane is tried again after half a minute, or as soon as its endpoint is touched.
    await installation.owner.execute("UPDATE webhook.endpoint SET updated_at = clock_timestamp()")
    await installation.start(SECRET_KEYS=f"{installation.key},{first_key}")
    await installation.all_delivered(6)
    assert out_of_order(installation.receiver.arrivals, {str(event.id): event.seq for event in sent}) == []
    assert {arrival.signature for arrival in installation.receiver.arrivals} == {Signature.RIGHT}
    assert len(installation.receiver.arrivals) == 6


async def test_a_lane_whose_secret_is_empty_or_short_waits_and_signs_nothing(
    installation: Installation,
) -> None:
    cipher = AESGCM(base64.b64decode(installation.key.partition(":")[2]))
    for merchant, plain in (("m1", b""), ("m2", b"short")):
        sealed = b"n" * 12 + cipher.encrypt(b"n" * 12, plain, merchant.encode())
        await installation.admin.execute(
            ENDPOINT, merchant, installation.receiver.url(merchant), sealed, "k1"
        )
    await installation.configure("m3")
    await installation.emit_each(["m1", "m2", "m3"], 2)
    daemon = await installation.start()

    async def are_counted() -> bool:
        return "webhook_unopened_secrets 2.0" in (await daemon.asked("/metrics"))[1]

    async def is_ready() -> bool:
        return await daemon.asked("/readyz") == (200, "ready\n")

    await until_found(are_counted)
    await until_found(is_ready)
    named = {entry["merchant_id"]: entry["reason"] for entry in daemon.log("secret.unopened")}
    checked = installation.command("check")
    assert checked.returncode == 1
    assert {line.split()[1] for line in checked.stdout.splitlines() if line.startswith("secret")} == {
        "m1:",
        "m2:",
    }
    assert named == {
        merchant: f"what it opens for merchant '{merchant}' is too short or no text: rotate that secret"
        for merchant in ("m1", "m2")
    }
    await installation.all_delivered(2)
    assert {arrival.merchant_id for arrival in installation.receiver.arrivals} == {"m3"}
    assert await installation.count("state = 'pending' AND attempts = 0") == 4

    # A rotation makes a proper one; the lane goes on at once.
    for merchant in ("m1", "m2"):
        rotated = installation.command("endpoint", "rotate-secret", merchant, "--yes")
        installation.receiver.secrets[merchant] = Secret(rotated.stdout.split()[-1])
    await installation.all_delivered(6)
    assert {arrival.signature for arrival in installation.receiver.arrivals} == {Signature.RIGHT}


async def test_the_audit_names_who_changed_an_endpoint(installation: Installation) -> None:
    url, keys = installation.receiver.url("m1"), f"{make_key('k2')},{installation.key}"
    commands: dict[tuple[str, ...], str] = {
        ("endpoint", "set", "m1", url): "endpoint set",
        ("endpoint", "set", "m1", f"{url}new"): "url changed",
        ("endpoint", "rotate-secret", "m1"): "secret rotated",
        ("endpoint", "rekey"): "secret rekeyed",
        ("endpoint", "remove", "m1", "--yes"): "endpoint removed",
        ("adopt", "--yes"): "installation adopted",
    }
    expected = []
    for command, action in commands.items():
        named = {"SECRET_KEYS": keys} if "rekey" in command else {}
        named |= {"INSTALLATION": "anew"} if "adopt" in command else {}
        done = installation.command(*command, "--requested-by", "ana", **named)
        assert done.returncode == 0, done.stderr
        expected.append((action, "ana"))
    assert installation.command("endpoint", "set", "m1", url).returncode == 0
    expected.append(("endpoint set", operator()))
    rows = await installation.owner.fetch("SELECT action, person FROM webhook.audit ORDER BY id")
    assert [(row["action"], row["person"]) for row in rows] == expected


REFUSED = (
    "webhook-dispatcher: WEBHOOK_SECRET_KEYS: 'k1' is not the key that this database knows by that id; "
    "give each id the key that it was first used with; a new key takes a new id\n"
)


async def test_a_wrong_key_under_a_right_id_is_refused_by_every_command(installation: Installation) -> None:
    first = installation.command("endpoint", "set", "m1", installation.receiver.url("m1"))
    secret = Secret(first.stdout.split()[-1])
    installation.receiver.secrets["m1"] = secret
    stored = await installation.owner.fetch("SELECT * FROM webhook.endpoint")
    wrong = make_key("k1")
    for command in (
        ("endpoint", "set", "m2", "https://merchant.com/"),
        ("endpoint", "rotate-secret", "m1"),
        ("endpoint", "rotate-secret", "m1", "--overlap", "PT1H"),
        ("endpoint", "rekey"),
    ):
        for keys in (wrong, f"{make_key('k2')},{wrong}"):
            refused = installation.command(*command, SECRET_KEYS=keys)
            assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", REFUSED), command
    for processes in ("1", "2"):
        daemon = installation.spawn(SECRET_KEYS=wrong, PROCESSES=processes, LOG_FORMAT="console")
        assert await daemon.ended() == 2
        assert REFUSED in daemon.log_file.read_text()
        daemon.log_file.write_text("")
    checked = installation.command("check", SECRET_KEYS=wrong)
    assert checked.returncode == 2
    assert "'k1' is not the key" in checked.stdout
    assert await installation.owner.fetch("SELECT * FROM webhook.endpoint") == stored
    # What needs no key goes on, and the right key works as before.
    changed = installation.command(
        "endpoint", "set", "m1", installation.receiver.url("m1"), SECRET_KEYS=wrong
    )
    assert changed.returncode == 0
    assert installation.command("endpoint", "show", "m1", SECRET_KEYS=wrong).returncode == 0
    await installation.start()
    await installation.emit("m1")
    await installation.all_delivered(1)
    assert {arrival.signature for arrival in installation.receiver.arrivals} == {Signature.RIGHT}


async def test_a_daemon_whose_key_turns_out_to_be_wrong_later_is_not_ready(
    installation: Installation,
) -> None:
    daemon = await installation.start(SECRET_KEYS=make_key("k1"))
    await installation.until_true(SEALS)
    refused = installation.command("endpoint", "set", "m1", installation.receiver.url("m1"))
    assert (refused.returncode, "a new key takes a new id" in refused.stderr) == (2, True)
    check = Keyring.parse(installation.key).check_value("k1")
    await installation.owner.execute("INSERT INTO webhook.key_check (key_id, value) VALUES ('k1', $1)", check)
    await daemon.logged("key.refused")
    said = "encryption key 'k1' is not the one that this id stands for\n"
    assert await daemon.asked("/readyz") == (503, said)


async def test_secrets_in_files_reach_the_daemon_and_the_processes_of_a_supervisor(
    installation: Installation,
) -> None:
    secrets = {name: installation.settings()[name] for name in ("DATABASE_URL", "SECRET_KEYS")}
    for name, text in secrets.items():
        (installation.folder / f"WEBHOOK_{name}").write_text(f"{text}\n")
    unset = dict.fromkeys(secrets, "")
    await installation.configure("m1")
    supervisor = await start_processes(installation, 2, **unset, SECRETS_DIR=str(installation.folder))
    await installation.emit("m1")
    await installation.all_delivered(1)
    supervisor.terminate()
    assert await supervisor.ended() == 0
    await installation.start(**unset, **{f"{name}_FILE": f"WEBHOOK_{name}" for name in secrets})
    await installation.emit("m1")
    await installation.all_delivered(2)
