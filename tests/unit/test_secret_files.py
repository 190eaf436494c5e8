"""Secrets in files: each is given once, and what is wrong with a file is said without what it holds."""

import base64
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.settings.sources import MAX_BYTES, SECRETS, without_files

KEYS = "k1:" + base64.b64encode(b"k" * 32).decode()
GIVEN = {
    "WEBHOOK_DATABASE_URL": "eu1=postgresql://u:sesame@localhost/a eu2=postgresql://u:sesame@localhost/b",
    "WEBHOOK_MIGRATION_DATABASE_URL": "eu1=postgresql://localhost/a\neu2=postgresql://localhost/b",
    "WEBHOOK_SECRET_KEYS": KEYS,
    "WEBHOOK_EGRESS_PROXY": "http://u:sesame@proxy:3128",
}
SECRETS_DIR = "WEBHOOK_SECRETS_DIR"


def problems(environ: Mapping[str, str]) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environ)
    assert "sesame" not in str(caught.value)
    return str(caught.value).splitlines()


def named(folder: Path) -> dict[str, str]:
    return {f"{name}_FILE": str(folder / name) for name in GIVEN}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in GIVEN.items():
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


def test_every_secret_may_stand_in_a_file_that_is_named_or_in_the_folder(folder: Path) -> None:
    assert GIVEN.keys() == SECRETS.keys()
    wanted = load_settings(GIVEN)
    assert load_settings(named(folder)) == wanted
    mounted = load_settings({SECRETS_DIR: f"{folder} "})
    assert mounted == wanted.model_copy(update={"secrets_dir": folder})
    assert "sesame" not in repr(mounted)


def test_the_folder_is_read_as_kubernetes_mounts_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mount = tmp_path_factory.mktemp("mount")
    (mount / "..data").symlink_to(folder)
    for name in GIVEN:
        (mount / name).symlink_to(f"..data/{name}")
    assert load_settings({SECRETS_DIR: str(mount)}).secret_keys == load_settings(GIVEN).secret_keys


@pytest.mark.parametrize(
    ("holds", "wrong"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xef\xbb\xbf\n", "is empty"),
        (b"http://u:ses\0ame@proxy:3128", "holds a NUL"),
        (b"sesame\xff", "holds no text in UTF-8"),
        (b"sesame" * MAX_BYTES, "is no file of at most 65536 bytes"),
        (Path("/no/such/file"), "cannot be read: No such file or directory"),
        (Path("/proc/self/mem"), "cannot be read: Input/output error"),
        (Path("/dev/zero"), "is no file of at most 65536 bytes"),
        (Path("/etc"), "is no file of at most 65536 bytes"),
        (Path("loop"), "cannot be read: Too many levels of symbolic links"),
    ],
)
@pytest.mark.parametrize("name", SECRETS)
def test_a_file_of_no_use_is_named(tmp_path: Path, name: str, holds: bytes | Path, wrong: str) -> None:
    file = tmp_path / name
    if isinstance(holds, bytes):
        file.write_bytes(holds)
    else:
        file.symlink_to(file if holds == Path("loop") else holds)
    for environ in ({f"{name}_FILE": str(file)}, {SECRETS_DIR: str(tmp_path)}):
        assert problems(environ) == [f"{name}: {str(file)!r} {wrong}"]


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "WEBHOOK_SECRET_KEYS")
    [problem] = problems({SECRETS_DIR: str(tmp_path)})
    assert problem.endswith(" is no file of at most 65536 bytes")


@pytest.mark.parametrize(
    ("name", "text", "right"),
    [
        ("DATABASE_URL", "postgresql://u:ses\x01ame@db/x", "must be of the form postgresql://"),
        (
            "DATABASE_URL",
            "'postgresql://u:sesame@db/x'",
            "there are quotes in it, which only a shell takes away",
        ),
        ("SECRET_KEYS", "k1:sesame\nk2:sesame", "k1"),
        ("EGRESS_PROXY", "http://u:sesame@proxy:3128\nhttp://u:sesame@proxy:3129", "http://host:port"),
    ],
)
def test_what_a_file_holds_is_checked_as_what_a_variable_does(
    tmp_path: Path, name: str, text: str, right: str
) -> None:
    (tmp_path / f"WEBHOOK_{name}").write_text(text)
    [problem] = problems({SECRETS_DIR: str(tmp_path)})
    assert problem.startswith(f"WEBHOOK_{name}: ")
    assert right in problem


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_given_twice_is_refused(folder: Path, name: str) -> None:
    variable = {name: GIVEN[name]}
    file = {f"{name}_FILE": str(folder / name)}
    assert problems(variable | file) == [f"{name}: is given by {name} and by {name}_FILE: leave one"]
    mounted = {SECRETS_DIR: str(folder)}
    assert problems(variable | mounted) == [f"{name}: is given by {name} and by {SECRETS_DIR}: leave one"]
    assert problems(file | mounted) == [f"{name}: is given by {name}_FILE and by {SECRETS_DIR}: leave one"]
    empty = load_settings({name: " ", f"{name}_FILE": ""} | mounted)
    assert empty == load_settings(mounted)


def test_a_strange_name_in_the_folder_is_refused_and_others_files_are_not(folder: Path) -> None:
    for name in ("lost+found", "db-ca.pem", "WEBHOOK_DISPATCHER_TLS", "webhook_ca.pem"):
        (folder / name).write_text("sesame")
    assert load_settings({SECRETS_DIR: str(folder)}).secret_keys is not None
    strange = ["WEBHOOK_LEASE", "WEBHOOK_SECRETS_DIR", "WEBHOOK_SECRET_KEYS~", "webhook_database_url"]
    for name in strange:
        (folder / name).write_text("sesame")
    there_are = "there are " + ", ".join(GIVEN)
    assert problems({SECRETS_DIR: str(folder)}) == [
        f"{SECRETS_DIR}: {name!r} is no secret's name; {there_are}" for name in strange
    ]


def test_the_folder_has_to_be_one(folder: Path) -> None:
    file = str(folder / "WEBHOOK_SECRET_KEYS")
    assert problems({SECRETS_DIR: file}) == [f"{SECRETS_DIR}: {file!r} cannot be read: Not a directory"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("LEASE_FILE", "LEASE"), ("SECRET_KEY_FILE", "SECRET_KEYS_FILE"), ("SECRET_DIR", "SECRETS_DIR")],
)
def test_only_secrets_have_a_variable_for_their_file(name: str, meant: str) -> None:
    assert problems({f"WEBHOOK_{name}": "/run/x"}) == [
        f"WEBHOOK_{name}: no such setting; did you mean WEBHOOK_{meant}?"
    ]


def test_processes_of_our_own_get_the_secrets_without_the_files(folder: Path) -> None:
    others = {"PATH": "/bin", "WEBHOOK_LEASE": "PT40S"}
    for environ in (named(folder), {SECRETS_DIR: str(folder)}, GIVEN):
        own = without_files(environ | others, load_settings(environ))
        assert own == GIVEN | others | {
            "WEBHOOK_MIGRATION_DATABASE_URL": GIVEN["WEBHOOK_MIGRATION_DATABASE_URL"].replace("\n", " ")
        }


def test_the_librarys_own_log_of_what_it_read_is_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PYDANTIC_SETTINGS_DEBUG", "1")
    caplog.set_level(logging.DEBUG)
    load_settings({SECRETS_DIR: str(folder)})
    assert caplog.text == ""
