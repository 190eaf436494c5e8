"""Several databases: how their list is read, and how one of them is chosen."""

from collections.abc import Mapping

import pytest

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.settings import load_settings

BOTH = {
    "WEBHOOK_DATABASE_URL": " eu1=postgresql://u:sesame@localhost/a\n\teu2=postgresql://localhost/b?x=y,z "
}
OWNERS = {
    "WEBHOOK_MIGRATION_DATABASE_URL": "eu2=postgresql://o@localhost/b eu1=postgresql://o:sesame@localhost/a"
}
BARE = {"WEBHOOK_DATABASE_URL": "postgresql://u:p=w@localhost/a?application_name=x=y"}


def problem(environ: Mapping[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environ)
    return str(caught.value)


def test_list_is_separated_by_white_space() -> None:
    settings = load_settings(BOTH)
    assert [shard.name for shard in settings.databases()] == ["eu1", "eu2"]
    assert settings.of_shard("eu1").database_dsn() == "postgresql://u:sesame@localhost/a"
    assert settings.of_shard("eu2").database_dsn() == "postgresql://localhost/b?x=y,z"
    assert settings.of_shard("eu2").shard_name == "eu2"
    assert settings.shard_name is None
    for text in (repr(settings), str(settings), repr(settings.databases())):
        assert "sesame" not in text


def test_single_database_may_stand_bare_or_have_a_name() -> None:
    bare = load_settings(BARE)
    assert bare.shard_name is None
    assert bare.database_dsn() == BARE["WEBHOOK_DATABASE_URL"]
    named = load_settings({"WEBHOOK_DATABASE_URL": "only=" + BARE["WEBHOOK_DATABASE_URL"]})
    assert (named.shard_name, named.database_dsn()) == ("only", bare.database_dsn())
    assert named.of_shard("only") == named


@pytest.mark.parametrize("environ", [BOTH, BARE, {"WEBHOOK_DATABASE_URL": "a=postgresql://localhost/x"}])
def test_text_of_a_database_is_read_as_the_same_again(environ: dict[str, str]) -> None:
    for shard in load_settings(environ).databases():
        again = load_settings({"WEBHOOK_DATABASE_URL": shard.text.get_secret_value()})
        assert again.databases() == (shard,)


def test_one_of_several_must_be_chosen() -> None:
    settings = load_settings(BOTH)
    for name in (None, "eu3"):
        with pytest.raises(ConfigurationError, match=r"eu1, eu2") as caught:
            settings.of_shard(name)
        assert "sesame" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"choose one of eu1, eu2 by --shard"):
        settings.database_dsn()
    with pytest.raises(
        ConfigurationError, match=r"^--shard eu1: the database has no name; leave --shard out$"
    ):
        load_settings(BARE).of_shard("eu1")


def test_owners_are_found_by_name() -> None:
    settings = load_settings(BOTH | OWNERS)
    assert [shard.name for shard in settings.migrations()] == ["eu2", "eu1"]
    assert settings.migration_dsn("eu2") == "postgresql://o@localhost/b"
    alone = load_settings(BOTH)
    assert alone.migrations() == alone.databases()
    assert alone.migration_dsn("eu2") == alone.of_shard("eu2").database_dsn()
    with pytest.raises(ConfigurationError, match=r"no such database; there are eu2, eu1"):
        settings.migration_dsn("us1")


@pytest.mark.parametrize(
    ("owners", "named"),
    [
        ("eu1=postgresql://o:sesame@localhost/a", "eu1, eu2, not eu1"),
        ("eu1=postgresql://localhost/a eu3=postgresql://localhost/b", "eu1, eu2, not eu1, eu3"),
        ("postgresql://o:sesame@localhost/a", r"eu1, eu2, not (no name)"),
    ],
)
def test_both_lists_name_the_same(owners: str, named: str) -> None:
    line = problem(BOTH | {"WEBHOOK_MIGRATION_DATABASE_URL": owners})
    assert line == (
        "WEBHOOK_MIGRATION_DATABASE_URL: must name the databases as WEBHOOK_DATABASE_URL does, " + named
    )


@pytest.mark.parametrize("name", ["EU1", "", "eu 1", "e" * 33, "eu.1", "ses:ame"])
def test_what_is_no_name_is_never_quoted(name: str) -> None:
    line = problem({"WEBHOOK_DATABASE_URL": f"{name}=postgresql://sesame@a/x b=postgresql://sesame@b/x"})
    assert "\n" not in line
    assert "sesame" not in line
    assert not name or name not in line.removeprefix("WEBHOOK_DATABASE_URL: ")


@pytest.mark.parametrize(
    ("processes", "cpus", "databases", "count"),
    [
        *(("1", 8, BARE, 1), ("5", 1, BOTH, 5), ("auto", 8, BARE, 8), ("AUTO", 8, BOTH, 4)),
        *(("auto", 7, BOTH, 4), ("auto", 1, BOTH, 1)),
    ],
)
def test_processes_are_counted_for_each_database(
    processes: str, cpus: int, databases: dict[str, str], count: int
) -> None:
    assert load_settings(databases | {"WEBHOOK_PROCESSES": processes}).process_count(cpus) == count
