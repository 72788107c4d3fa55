#!/usr/bin/env python3
"""A small HTTP service over SQLite that knows nothing of what upgrades it: an example for gate files.

    items.py --init --db FILE              make the schema of version 1
    items.py --expand --db FILE            add what version 2 needs
    items.py --version N --port N --db FILE --disable-file FILE

--fault makes it a bad one, for tests of gates: errors (1 % of the answers are 500), blind (cannot read what version 1
wrote), deaf (the health check ignores the disable-file), foreign (writes what version 1 cannot read), forgetful (deletes
the older half of the rows at each start), stillborn (never becomes ready), liar (answers another version's number), hoarder
(deletes nothing), slow (works 20 % longer), leak (keeps 1 MB for each request), strict (cannot read what a later version
wrote), mortal (says why and exits with 3 at its fortieth request for items).
"""

import argparse
import itertools
import json
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COUNT = itertools.count(1)
KEPT = []


def connect(path):
    database = sqlite3.connect(path, timeout=10, isolation_level=None)
    database.execute("PRAGMA busy_timeout = 10000")
    # A killed process loses nothing by this, only a loss of power would: beside a busy disk, writers waited for each other
    # for longer than clients wait.
    database.execute("PRAGMA synchronous = OFF")
    return database


class Server(ThreadingHTTPServer):
    """With --share, two processes may listen on one port, so that a new version that starts too early does not fail."""

    share = False
    # The usual five are too few: where more connections arrive at once, the system lets them wait for a second or more.
    request_queue_size = 128

    def server_bind(self):
        if self.share:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


class Items(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One write for head and body: two small ones wait for each other's acknowledgement.
    wbufsize = -1

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Version", str(self.server.version))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def item(self, database, key):
        row = database.execute("SELECT id, name, colour, version FROM items WHERE id = ?", (key,)).fetchone()
        if row is None or (self.server.fault == "blind" and row[3] == 1):
            return None
        if self.server.fault == "strict" and row[3] > self.server.version:
            return None
        name = row[1]
        if self.server.version >= 2 and name.startswith("v2:"):
            name = name[3:]
        return {"id": row[0], "name": name, "colour": row[2], "written_by": row[3]}

    def stored(self, name):
        return "v2:" + name if self.server.fault == "foreign" else name

    def route(self):
        path = urlsplit(self.path).path
        if path == "/version":
            return self.answer(200, {"version": self.server.version + (self.server.fault == "liar")})
        if path == "/ready":
            return self.answer(503 if self.server.fault == "stillborn" else 200, "ready")
        if path == "/health":
            disabled = os.path.exists(self.server.disable_file) and self.server.fault != "deaf"
            return self.answer(503 if disabled else 200, "DISABLED BY FILE" if disabled else "OK")
        if self.server.fault == "errors" and next(COUNT) % 100 == 0:
            return self.answer(500, "it broke")
        if self.server.fault == "leak":
            KEPT.append(bytearray(os.urandom(1)) * 1_000_000)
        time.sleep(self.server.work * (1.2 if self.server.fault == "slow" else 1))
        if path == "/echo":
            return self.answer(200, {"bytes": len(self.rfile.read(int(self.headers["Content-Length"])))})
        database = connect(self.server.database)
        try:
            return self.items(database, path)
        finally:
            database.close()

    def items(self, database, path):
        if self.server.fault == "mortal" and next(COUNT) == 40:
            print("out of cheese <&>", file=sys.stderr, flush=True)
            os._exit(3)
        key = path.removeprefix("/items").removeprefix("/")
        if self.command == "GET" and not key:
            rows = database.execute("SELECT id FROM items ORDER BY id LIMIT 10").fetchall()
            return self.answer(200, {"items": [row[0] for row in rows]})
        if self.command == "POST":
            new, key = self.body(), str(uuid.uuid4())
            row = (key, self.stored(new["name"]), new["colour"], self.server.version)
            database.execute("INSERT INTO items (id, name, colour, version) VALUES (?, ?, ?, ?)", row)
            return self.answer(201, self.item(database, key))
        if self.command == "PUT":
            new = self.body()
            row = (self.stored(new["name"]), self.server.version, key)
            database.execute("UPDATE items SET name = ?, version = ? WHERE id = ?", row)
        found = self.item(database, key)
        if found is None:
            return self.answer(404, {"error": f"there is no item {key}"})
        if self.command == "DELETE":
            if self.server.fault == "hoarder":
                return self.answer(200, {})
            database.execute("DELETE FROM items WHERE id = ?", (key,))
            return self.answer(200, {})
        return self.answer(200, found)

    do_GET = do_POST = do_PUT = do_DELETE = route


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--db", required=True)
    options.add_argument("--version", type=int, default=1)
    options.add_argument("--fault", default="")
    options.add_argument("--work", type=float, default=0, help="how long each request takes besides, in ms")
    options.add_argument("--port", type=int)
    options.add_argument("--disable-file", default="")
    options.add_argument("--share", action="store_true")
    options.add_argument("--init", action="store_true")
    options.add_argument("--expand", action="store_true")
    given = options.parse_args()
    database = connect(given.db)
    if given.init:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE items (id TEXT PRIMARY KEY, name TEXT, colour TEXT, version INTEGER)")
        return
    if given.expand:
        # It may have been done before: an upgrade that was rolled back left it.
        if "note" not in [column[1] for column in database.execute("PRAGMA table_info(items)")]:
            database.execute("ALTER TABLE items ADD COLUMN note TEXT")
        return
    if given.fault == "forgetful":
        half = "SELECT count(*) / 2 FROM items"
        database.execute(f"DELETE FROM items WHERE rowid IN (SELECT rowid FROM items ORDER BY rowid LIMIT ({half}))")
    database.close()
    Server.share = given.share
    server = Server(("127.0.0.1", given.port), Items)
    server.database, server.disable_file = given.db, given.disable_file
    server.version, server.fault, server.work = given.version, given.fault, given.work / 1e3
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    sys.exit(main())
