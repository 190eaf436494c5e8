"""The page that shows the OpenAPI document: HTML with its style in it, no script, nothing fetched."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Object = Mapping[str, Any]

STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); border-radius: .4rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0 }
td, th { border-bottom: 1px solid var(--line) }
td:last-child { white-space: pre-line; overflow-wrap: anywhere }
nav td:first-child { white-space: nowrap }
b.method { display: inline-block; min-width: 4.5rem }
summary { cursor: pointer; margin: .6rem 0 }
@media (max-width: 45rem) {
  nav td { display: block; border-bottom: 0; padding-right: 0 }
  nav td + td { border-bottom: 1px solid var(--line); padding-top: 0 }
}
"""


def page(document: Object) -> str:
    """Write the page."""
    info = document["info"]
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{escape(info['title'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        f"<p>{_prose(info['description'])}</p>",
        f'<p><a href="/openapi.json">The same as OpenAPI {document["openapi"]}</a></p>',
        f"<nav><table>{''.join(_entry(*each) for each in operations)}</table></nav>",
        *(_section(document, *each) for each in operations),
        '<h2 id="errors">Errors</h2>',
        _table(("code", "type", "message"), _errors(document)),
        '<h2 id="objects">Objects</h2>',
        *(_object(name, schema) for name, schema in document["components"]["schemas"].items()),
        "</body></html>",
    ]
    return "\n".join(parts)


def _entry(method: str, path: str, operation: Object) -> str:
    link = f'<a href="#{operation["operationId"]}"><code>{escape(path)}</code></a>'
    return f'<tr><td><b class="method">{method}</b> {link}</td><td>{_prose(operation["summary"])}</td></tr>'


def _section(document: Object, method: str, path: str, operation: Object) -> str:
    parameters = (_parameter(document, each) for each in operation["parameters"])
    body = operation.get("requestBody", {"content": {}})["content"]
    sent = (f"<p>Body, <code>{kind}</code>: {_schema(each['schema'])}</p>" for kind, each in body.items())
    responses = (
        (status, _data(response), _prose(response["description"]))
        for status, response in operation["responses"].items()
    )
    return "\n".join(
        [
            f'<h2 id="{operation["operationId"]}">',
            f'<b class="method">{method}</b> <code>{escape(path)}</code></h2>',
            f"<p>{_prose(operation['summary'])}</p>",
            "" if operation.get("security") != [] else "<p>Needs no token.</p>",
            _table(("parameter", "in", "what"), parameters),
            *sent,
            _table(("status", "data", "when"), responses),
        ]
    )


def _parameter(document: Object, parameter: Object) -> tuple[str, str, str]:
    if "$ref" in parameter:
        parameter = document["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
    name = f"<code>{escape(parameter['name'])}</code>" + (" (required)" if parameter.get("required") else "")
    described = _prose(parameter.get("description", ""))
    return name, parameter["in"], f"{described} <code>{_compact(parameter['schema'])}</code>"


def _data(response: Object) -> str:
    [content] = response["content"].values()
    envelope = content["schema"].get("oneOf", [content["schema"]])[0]
    data = envelope["properties"].get("data")
    return "" if data is None else _schema(data)


def _schema(schema: Object) -> str:
    """Write a schema: an object's name with a link to where it is described, or else the schema itself."""
    if "items" in schema:
        return f"a list of {_schema(schema['items'])}"
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{name}">{name}</a>' if name else f"<code>{_compact(schema)}</code>"


def _errors(document: Object) -> Iterator[tuple[str, str, str]]:
    for schema in document["components"]["schemas"].values():
        properties = schema.get("properties", {})
        if "const" in properties.get("code", {}):
            code, kind = properties["code"]["const"], properties["type"]["const"]
            yield f"<code>{code}</code>", kind, "<br>".join(map(escape, properties["message"]["examples"]))


def _object(name: str, schema: Object) -> str:
    text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    return f'<details id="{name}"><summary><code>{name}</code></summary><pre>{text}</pre></details>'


def _compact(schema: Object) -> str:
    return escape(json.dumps(schema, ensure_ascii=False))


def _prose(text: str) -> str:
    """Write a text, with what stands in backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    cells = "".join(f"<th>{each}</th>" for each in head)
    lines = "".join(f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{lines}</table>"
