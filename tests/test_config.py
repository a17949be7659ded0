"""Settings: which file, what wins over what, what is refused with which hint, and that nothing secret is shown."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.config import Config, load, masked, shown
from tidefill.errors import InvalidSetting

FULL = """
store = "state"
warehouse = "s3a://bucket/lake"

[spark]
"spark.driver.memory" = "2g"
spark.sql.shuffle.partitions = 8
spark.ui.enabled = false
spark.memory.fraction = 0.5
master = "local[2]"

[connections.shop]
url = "env:SHOP_URL"
"""


def written(folder: Path, text: str, name: str = "tidefill.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def refused(folder: Path, text: str) -> InvalidSetting:
    written(folder, text)
    with pytest.raises(InvalidSetting) as caught:
        load(folder, None, {})
    return caught.value


# Which file


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, None, {})
    assert config == Config(None, str(tmp_path / ".tidefill"), str(tmp_path / "lake"))
    assert shown(config) == [
        ("store", str(tmp_path / ".tidefill"), "default"),
        ("warehouse", str(tmp_path / "lake"), "default"),
    ]


def test_everything_a_file_can_say(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    config = load(tmp_path, None, {})
    assert (config.path, config.store, config.warehouse) == (path, str(tmp_path / "state"), "s3a://bucket/lake")
    assert config.remote is None
    assert dict(config.spark) == {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
        "spark.memory.fraction": "0.5",
        "spark.master": "local[2]",
    }
    assert ("connections.shop.url", "env:SHOP_URL", "tidefill.toml") in shown(config)


def test_a_file_is_found_upwards_and_its_folders_are_beside_it(tmp_path: Path) -> None:
    written(tmp_path, 'warehouse = "data"')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    config = load(below, None, {})
    assert (config.store, config.warehouse) == (str(tmp_path / ".tidefill"), str(tmp_path / "data"))


def test_the_nearest_file_is_taken(tmp_path: Path) -> None:
    written(tmp_path, "")
    inner = written(tmp_path / "a", "")
    assert load(tmp_path / "a", None, {}).path == inner


def test_a_folder_of_that_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "tidefill.toml").mkdir()
    assert load(tmp_path, None, {}).path is None


def test_a_named_file_goes_before_one_that_would_be_found(tmp_path: Path) -> None:
    written(tmp_path, "")
    by_flag, by_variable = written(tmp_path / "a", "", "a.toml"), written(tmp_path / "b", "", "b.toml")
    assert load(tmp_path, "a/a.toml", {"TIDEFILL_CONFIG": "b/b.toml"}).path == by_flag
    assert load(tmp_path, None, {"TIDEFILL_CONFIG": str(by_variable)}).path == by_variable


@pytest.mark.parametrize(("flag", "variable"), [("no.toml", ""), (None, "no.toml")])
def test_a_named_file_has_to_be_there(tmp_path: Path, flag: str | None, variable: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        load(tmp_path, flag, {"TIDEFILL_CONFIG": variable})
    assert caught.value.fact == f"there is no file {tmp_path / 'no.toml'}"
    assert ("--config" if flag else "TIDEFILL_CONFIG") in caught.value.detail


def test_a_named_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot be read"):
        load(tmp_path, ".", {})


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    written(tmp_path, '\ufeffstore = "a"')
    assert load(tmp_path, None, {}).store == str(tmp_path / "a")


# The environment


def test_the_environment_wins_and_is_relative_to_where_one_works(tmp_path: Path) -> None:
    written(tmp_path, FULL)
    below = tmp_path / "a"
    below.mkdir()
    config = load(below, None, {"TIDEFILL_STORE": "here", "TIDEFILL_WAREHOUSE": "hdfs://host/lake"})
    assert shown(config)[:2] == [
        ("store", str(below / "here"), "TIDEFILL_STORE"),
        ("warehouse", "hdfs://host/lake", "TIDEFILL_WAREHOUSE"),
    ]


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    config = load(tmp_path, None, {"TIDEFILL_STORE": "", "TIDEFILL_CONFIG": ""})
    assert config.store_from == "default"


def test_home_is_the_one_of_the_environment(tmp_path: Path) -> None:
    written(tmp_path, 'store = "~/state"')
    assert load(tmp_path, None, {"HOME": "/home/ada"}).store == "/home/ada/state"


# What is refused


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('stor = "a"', "stor", "Did you mean store?"),
        ("[conections.shop]", "conections", "Did you mean connections?"),
        ("zzz = 1", "zzz", "There is: store, warehouse, on_failure, lag_bound, spark, connections."),
        ('[spark]\nremot = "sc://host"', "spark.remot", "Did you mean remote?"),
        ('[spark]\nfs.s3a.access = "x"', "spark.fs.s3a.access", '"spark.hadoop.fs.s3a.access"'),
        ('[spark]\nstore = "x"', "spark.store", "Did you mean store? It belongs above the line [spark]."),
        ('[spark]\nstor = "x"', "spark.stor", "Did you mean store? It belongs above the line [spark]."),
        ('[connections.shop]\nur = "x"', "connections.shop.ur", "Did you mean url?"),
        ('[connections.shop]\nstore = "x"', "connections.shop.store", "above the line [connections.shop]"),
    ],
)
def test_an_unknown_key(tmp_path: Path, text: str, key: str, hint: str) -> None:
    error = refused(tmp_path, text)
    assert error.fact == f"there is no setting {key}"
    assert str(tmp_path / "tidefill.toml") in error.detail
    assert hint in error.hint


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("store = 3", "store is a number"),
        ("warehouse = true", "warehouse is true or false"),
        ("store = 2020-01-01", "store is a date"),
        ('store = " "', "store is empty"),
        ('store = "a\\u0000b"', "store is empty"),
        ('spark = "local"', "spark is a text"),
        ("[spark]\nspark.jars = ['a']", "spark.jars is a list"),
        ("connections = []", "connections is a list"),
        ('connections.shop = "env:SHOP_URL"', "connections.shop is a text"),
        ("[connections.shop]\nurl = 1", "connections.shop.url is a number"),
        ("[connections.shop]", "connections.shop has no url"),
        ('[connections.shop]\nurl = "env:"', "connections.shop.url names no variable"),
        ('[spark]\nremote = "host:15002"', "spark.remote is no URL of Spark Connect"),
        ('[spark]\nremote = "sc://host"\nmaster = "local"', "spark has both remote and master"),
        ('[spark]\nremote = "sc://a"\n"spark.remote" = "sc://b"', "spark.remote is set twice"),
    ],
)
def test_a_wrong_value(tmp_path: Path, text: str, fact: str) -> None:
    error = refused(tmp_path, text)
    assert error.fact == f"{fact} in {tmp_path / 'tidefill.toml'}"
    assert error.hint


@pytest.mark.parametrize(
    ("store", "fact"),
    [
        ("mysql://ada:hunter2@host/db", "the store is mysql://ada:***@host/db"),
        ("s3a://bucket/store", "the store is s3a://bucket/store"),
        ("env: ", "the store names no variable"),
    ],
)
def test_a_store_is_a_folder_or_a_database_of_postgres(tmp_path: Path, store: str, fact: str) -> None:
    error = refused(tmp_path, f'store = "{store}"')
    assert error.fact == fact
    assert "env:VARIABLE" in error.hint


@pytest.mark.parametrize(
    "text", ['store = "a"\nwarehouse "b"', "\nx = " + "[" * 5000, "\nx = " + "9" * 5000], ids=["broken", "deep", "long"]
)
def test_broken_toml(tmp_path: Path, text: str) -> None:
    error = refused(tmp_path, text)
    assert error.fact == f"{tmp_path / 'tidefill.toml'} is not valid TOML"
    assert "line 2" in error.detail or text.startswith("\n")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "tidefill.toml").write_bytes(b'store = "a"\nwarehouse = "\xff"')
    with pytest.raises(InvalidSetting, match="is not UTF-8") as caught:
        load(tmp_path, None, {})
    assert caught.value.detail == "At line 2."


# A store in a database


def test_a_store_in_a_database(tmp_path: Path) -> None:
    url = "postgresql://ada:hunter2@host/db"
    written(tmp_path, f'store = "{url}"')
    config = load(tmp_path, None, {})
    assert (config.store_place({}), config.is_store_elsewhere) == (url, True)
    assert shown(config)[0] == ("store", "postgresql://ada:***@host/db", "tidefill.toml")
    assert config.log_folder == tmp_path / ".tidefill"
    assert "hunter2" not in repr(config)


def test_the_url_of_a_store_in_the_environment(tmp_path: Path) -> None:
    written(tmp_path, 'store = "env:STORE_URL"')
    config = load(tmp_path / "below", None, {})
    assert config.store_place({"STORE_URL": "postgres://host/db"}) == "postgres://host/db"
    assert shown(config)[0] == ("store", "env:STORE_URL", "tidefill.toml")
    assert config.log_folder == tmp_path / ".tidefill"
    for environ, fact in (
        ({}, "the store needs the environment variable STORE_URL, which is not set"),
        ({"STORE_URL": ""}, "the store needs the environment variable STORE_URL, which is not set"),
        ({"STORE_URL": "/folder/hunter2"}, "STORE_URL holds no URL of PostgreSQL for the store"),
    ):
        with pytest.raises(InvalidSetting) as caught:
            config.store_place(environ)
        assert caught.value.fact == fact
        assert caught.value.hint.startswith("export STORE_URL=")


def test_a_store_in_a_folder_holds_its_log(tmp_path: Path) -> None:
    config = load(tmp_path, None, {})
    assert (config.store_place({}), config.is_store_elsewhere) == (str(tmp_path / ".tidefill"), False)
    assert config.log_folder == tmp_path / ".tidefill"


# Connections and secrets


def test_a_url_is_looked_up_only_when_it_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path, FULL)
    config = load(tmp_path, None, {})
    assert config.connection_url("shop", {"SHOP_URL": "postgresql://host/shop"}) == "postgresql://host/shop"
    for environ in ({}, {"SHOP_URL": ""}):
        with pytest.raises(InvalidSetting, match="SHOP_URL, which is not set"):
            config.connection_url("shop", environ)


def test_an_unknown_connection(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"\[connections.shop\]"):
        load(tmp_path, None, {}).connection_url("shop", {})
    written(tmp_path, FULL)
    with pytest.raises(InvalidSetting, match="Did you mean shop"):
        load(tmp_path, None, {}).connection_url("shpo", {})


def test_a_secret_in_the_file_works_and_is_never_shown(tmp_path: Path) -> None:
    written(
        tmp_path,
        """
        [spark]
        remote = "sc://host:443/;token=hunter2;user_id=ada"
        "spark.hadoop.fs.s3a.secret.key" = "hunter2"
        "spark.sql.catalog.shop.url" = "jdbc:postgresql://host/shop?user=ada&password=hunter2&ssl=true"
        "spark.driver.extraJavaOptions" = "-Xss4m -Djavax.net.ssl.trustStorePassword=hunter2"
        [connections.shop]
        url = "postgresql://ada:hunter2@host:5432/shop"
        """,
    )
    config = load(tmp_path, None, {})
    assert config.connection_url("shop", {}) == "postgresql://ada:hunter2@host:5432/shop"
    assert config.remote == "sc://host:443/;token=hunter2;user_id=ada"
    values = {setting: value for setting, value, _ in shown(config)}
    assert values["connections.shop.url"] == "postgresql://ada:***@host:5432/shop"
    assert values["spark.hadoop.fs.s3a.secret.key"] == "***"
    assert values["spark.sql.catalog.shop.url"] == "jdbc:postgresql://host/shop?user=ada&password=***&ssl=true"
    assert "hunter2" not in repr(values) + repr(config)


@pytest.mark.parametrize(
    "text",
    [
        "env:SHOP_KEY",
        "postgresql://ada@host:5432/shop",
        "postgresql://tokens.example/shop?sslmode=require",
        "sc://host:15002",
        "s3a://bucket/lake",
        "/home/ada/a=b",
    ],
)
def test_what_is_not_secret_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://:hunter2@host",
        "postgresql://me@example.org:hunter2@host/shop",
        "postgresql://ada:a&key=hunter2@host/shop",
        "postgresql://host:5432/shop?password=a@hunter2",
        "postgresql://host/shop?sslmode=require&sslPassword=hunter2",
        "jdbc:sqlserver://host:1433;user=ada;password=a@hunter2;x=y",
        "host=localhost password = 'a b&hunter2' user=ada",
        "https://account.example/lake?sp=r&sig=hunter2",
    ],
)
def test_what_is_secret_goes(text: str) -> None:
    assert "***" in masked(text)
    assert "hunter2" not in masked(text)


@given(st.text(st.characters(exclude_characters="="), max_size=6), st.text(max_size=6))
def test_no_password_gets_through_even_if_it_is_not_encoded(before: str, after: str) -> None:
    url = f"postgresql://ada:{before}hunter2{after}@host:5432/shop?sslmode=require"
    assert "hunter2" not in masked(url)


def test_only_the_standard_library_is_imported() -> None:
    program = "import sys, tidefill.config; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    site = {"tidefill", "sitecustomize", "usercustomize"} | set(sys.stdlib_module_names)
    assert {name for name in done.stdout.split() if name not in site and not name.startswith("_")} == set()


KAFKA_FILE = """
[connections.events]
kind = "kafka"
"bootstrap.servers" = "b1:9092,b2:9092"
sasl.username = "env:KAFKA_USER"
"sasl.password" = "env:KAFKA_PASSWORD"
"ssl.key.password" = "in the open"
"fetch.min.bytes" = 10
"""


def test_a_connection_to_kafka_has_the_settings_of_its_clients(tmp_path: Path) -> None:
    (tmp_path / "tidefill.toml").write_text(KAFKA_FILE)
    config = load(tmp_path, None, {})
    assert (config.names_of("kafka"), config.names_of("postgresql")) == (["events"], [])
    environ = {"KAFKA_USER": "ada", "KAFKA_PASSWORD": "a word"}
    assert config.client_settings("events", environ) == {
        "bootstrap.servers": "b1:9092,b2:9092", "sasl.username": "ada", "sasl.password": "a word",
        "ssl.key.password": "in the open", "fetch.min.bytes": "10",
    }  # fmt: skip
    with pytest.raises(InvalidSetting, match="KAFKA_PASSWORD, which is not set"):
        config.client_settings("events", {})
    told = {name: value for name, value, _ in shown(config)}
    assert told["connections.events.ssl.key.password"] == "***"
    assert told["connections.events.sasl.password"] == "env:KAFKA_PASSWORD"
    assert "in the open" not in repr(config)


def test_a_connection_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "tidefill.toml").write_text('[connections.events]\nkind = "rabbit"\n')
    with pytest.raises(InvalidSetting, match="kind is rabbit") as refused:
        load(tmp_path, None, {})
    assert refused.value.hint == "There is: postgresql, kafka."


def test_the_command_for_failures(tmp_path: Path) -> None:
    written(tmp_path, 'on_failure = "notify --to ada"\nlag_bound = "5 minutes"\n')
    config = load(tmp_path, None, {})
    assert (config.on_failure, config.lag_bound_s) == ("notify --to ada", 300.0)
    assert ("on_failure", "notify --to ada", "tidefill.toml") in shown(config)
    written(tmp_path, "on_failure = 'call https://ada:hunter2@x.example/?token=abc'")
    assert "hunter2" not in str(shown(load(tmp_path, None, {})))
    assert "no command" in refused(tmp_path, 'on_failure = "don\'t"').fact
    assert "no time" in refused(tmp_path, 'lag_bound = "soon"').fact
    assert "a number" in refused(tmp_path, "lag_bound = 5").fact
