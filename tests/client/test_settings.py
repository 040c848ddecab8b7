from __future__ import annotations

import pytest

from qanat.client.errors import UnknownSettingError
from qanat.client.settings import ClientSettings, read_settings
from qanat.model.errors import InvalidSettingError

BROKER = {"bootstrap.servers": "one:1,two"}


def test_pythons_names_and_kafkas_names_mean_the_same() -> None:
    by_kafka = read_settings(ClientSettings, {**BROKER, "retry.backoff.ms": "7", "client.id": "mine"}, {})
    by_python = read_settings(ClientSettings, ["one:1", "two:9092"], {"retry_backoff_ms": 7, "client_id": "mine"})
    assert by_kafka == by_python
    assert by_kafka.bootstrap_servers == (("one", 1), ("two", 9092))


def test_a_keyword_wins_over_the_dictionary() -> None:
    found = read_settings(ClientSettings, {**BROKER, "client.id": "theirs"}, {"client_id": "mine"})
    assert found.client_id == "mine"


@pytest.mark.parametrize(
    ("name", "nearest"), [("retry.backof.ms", "retry.backoff.ms"), ("retry_backof_ms", "retry_backoff_ms")]
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownSettingError, match=f"no setting {name}; did you mean {nearest}"):
        read_settings(ClientSettings, {**BROKER, name: "7"}, {})


@pytest.mark.parametrize("name", ["quux", "quux.zap"])
def test_an_unknown_name_without_a_nearest_is_an_error_too(name: str) -> None:
    with pytest.raises(UnknownSettingError, match=f"no setting {name}; see the page"):
        read_settings(ClientSettings, {**BROKER, name: "7"}, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"retry.backoff.ms": "soon"}, "retry.backoff.ms is 'soon'"),
        ({"retry_backoff_ms": -1}, "must not be negative"),
        ({"bootstrap.servers": ""}, "an address is needed"),
        ({"bootstrap.servers": "host:port"}, "is no address"),
        ({"client.id": "com.example.Unknown"}, "a Java class that has no counterpart"),
        ({"sasl.username": "me"}, "has no effect without security.protocol"),
    ],
)
def test_a_wrong_value_is_an_error_in_words(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        read_settings(ClientSettings, {**BROKER, **given}, {})


@pytest.mark.parametrize("linger_ms", [-1, -0.5, "-3", float("nan")])
def test_a_linger_below_zero_is_refused(linger_ms: object) -> None:
    from qanat.client.producer.settings import ProducerSettings

    with pytest.raises(InvalidSettingError, match=r"linger_ms is .*, but must not be negative"):
        read_settings(ProducerSettings, BROKER, {"linger.ms": linger_ms})


def test_security_settings_are_read_under_both_kinds_of_names() -> None:
    names = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    found = read_settings(ClientSettings, {**BROKER, **names, "sasl_password": "secret"}, {})
    assert found.security.credentials is not None
    assert found.security.credentials.username == "me"
    assert "secret" not in repr(found)


def test_an_app_gives_each_client_the_settings_that_it_has_and_what_none_has_is_refused() -> None:
    from qanat.client.consumer.settings import ConsumerSettings
    from qanat.client.producer.settings import ProducerSettings
    from qanat.client.queue.settings import QueueSettings
    from qanat.client.settings import settings_for

    kinds = (ConsumerSettings, ProducerSettings, QueueSettings)
    given = {"session_timeout_ms": 1, "linger.ms": 2, "prefetch_records": 3, "client_id": "x", "linger_msec": 4}

    assert list(settings_for(ConsumerSettings, kinds, given)) == ["session_timeout_ms", "client_id", "linger_msec"]
    assert list(settings_for(ProducerSettings, kinds, given)) == ["linger.ms", "client_id", "linger_msec"]
    assert list(settings_for(QueueSettings, kinds, given)) == ["prefetch_records", "client_id", "linger_msec"]
    with pytest.raises(UnknownSettingError, match="did you mean linger_ms"):
        read_settings(ProducerSettings, BROKER, settings_for(ProducerSettings, kinds, given))
