"""The files of PgBouncer that docs/operate/pgbouncer.md prints, in a delivery's way."""

import re
from pathlib import Path

import pytest
import trustme

from tests.acceptance.installation import Installation
from tests.servers.database import free_port
from tests.servers.pooler import Pooler, find_pgbouncer
from tests.servers.tls_gate import Gate

pytestmark = pytest.mark.needs(
    find_pgbouncer() is not None, "pgbouncer is missing: apt-get install pgbouncer"
)
PAGE = (Path(__file__).parents[2] / "docs" / "operate" / "pgbouncer.md").read_text(encoding="utf-8")
HERE = """
listen_port = {listen_port}
unix_socket_dir = {folder}
"""


async def test_the_files_of_the_page_work_as_printed(installation: Installation, tmp_path: Path) -> None:
    [printed] = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    [users] = re.findall(r"```\n(\".*?)```", PAGE, re.DOTALL)
    [url] = re.findall(r"^export WEBHOOK_DATABASE_URL='(.*)'$", PAGE, re.MULTILINE)
    authority = trustme.CA()
    proof = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "pooler-ca.pem")
    with Gate(installation.database, tmp_path).open() as gate:
        server = f"host=127.0.0.1 port={gate.port} dbname={installation.database.name}"
        configuration = printed.replace("host=db.internal port=5432", server)
        configuration = configuration.replace("listen_addr = *", "listen_addr = 127.0.0.1")
        configuration = re.sub(r"/etc/pgbouncer|/etc/ssl/certs", "{folder}", configuration)
        files = {
            "userlist.txt": users.encode(),
            "pooler.pem": b"".join(part.bytes() for part in proof.cert_chain_pems),
            "pooler.key": proof.private_key_pem.bytes(),
            "ca-certificates.crt": gate.right_ca.read_bytes(),
        }
        own = installation.database.server.dsn()
        port = free_port()
        url = url.replace("pooler.internal:6432", f"127.0.0.1:{port}")
        through = {
            "DATABASE_URL": f"{url}?sslmode=verify-full&sslrootcert={tmp_path / 'pooler-ca.pem'}",
            "DATABASE_POOLER": "transaction",
        }
        with Pooler(own, port=port, configuration=configuration + HERE, files=files):
            await installation.configure("m1")
            await installation.start(**through)
            sent = await installation.emit("m1")
            await installation.settled(sent.id, "delivered", 1)
            for_admin = through["DATABASE_URL"].replace("dispatcher:change-me-1", "admin:change-me-2")
            check = installation.command("check", **through | {"DATABASE_URL": for_admin})
            assert check.returncode == 0, check.stdout
    assert gate.passed
    assert all(gate.passed)
