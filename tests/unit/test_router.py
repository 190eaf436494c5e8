"""Paths lead to routes, and to nowhere in a way that says what there is."""

import pytest

from webhook_dispatcher.web.router import NoSuchMethod, NoSuchPath, Router

ROUTES = [
    ("GET", "/v1/things/{id}", "read"),
    ("DELETE", "/v1/things/{id}", "remove"),
    ("POST", "/v1/things/retry", "retry"),
    ("GET", "/v1/things/{id}/parts/{part}", "part"),
    ("GET", "/openapi.json", "document"),
]
ROUTER = Router(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "name", "parameters"),
    [
        ("GET", "/v1/things/a%20b", "read", {"id": "a b"}),
        ("HEAD", "/v1/things/a", "read", {"id": "a"}),
        ("DELETE", "/v1/things/x", "remove", {"id": "x"}),
        ("POST", "/v1/things/retry", "retry", {}),
        ("GET", "/v1/things/x/parts/y", "part", {"id": "x", "part": "y"}),
        ("GET", "/openapi.json", "document", {}),
    ],
)
def test_a_path_leads_to_its_route(method: str, path: str, name: str, parameters: dict[str, str]) -> None:
    assert ROUTER.find(method, path) == (name, parameters)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", "/v1/things/retry", "POST"), ("POST", "/v1/things/x", "DELETE, GET, HEAD")],
)
def test_another_method_is_told_which_there_are(method: str, path: str, allow: str) -> None:
    with pytest.raises(NoSuchMethod) as caught:
        ROUTER.find(method, path)
    assert caught.value.allow == allow


@pytest.mark.parametrize("end", ["{id}", "", "x\n", "%ff", "x" * 3073, "é", "x/y"])
def test_a_path_to_nowhere(end: str) -> None:
    with pytest.raises(NoSuchPath):
        ROUTER.find("GET", f"/v1/things/{end}")
    with pytest.raises(NoSuchPath):
        ROUTER.find("GET", "/openapi_json")


def test_one_route_cannot_be_there_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Router([*ROUTES, ("GET", "/openapi.json", "again")])


def test_what_a_parameter_may_be_is_up_to_the_program() -> None:
    with pytest.raises(NoSuchPath):
        Router(ROUTES, "[a-z]+").find("GET", "/v1/things/a%20b")
