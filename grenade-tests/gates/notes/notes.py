#!/usr/bin/python3
"""A small HTTP service over MariaDB that changes its schema while both versions run: an example for gate files.

    notes.py init|expand|migrate|contract --database URL
    notes.py has --database URL --id ID
    notes.py serve --database URL --version N --port N --disable-file FILE

Version 1 has the column `done`, version 2 has `state` instead. `expand` adds `state` and triggers that keep both columns
equal, `migrate` fills `state` of old rows, `contract` drops the triggers and `done`. Each can be run again.

--fault makes it a bad one, for tests of gates: foreign (version 2 writes a state that the triggers do not know, so that
version 1 reads a done note as open), hasty (`migrate` drops the column that version 1 reads).
"""

import argparse
import json
import os
import signal
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

try:
    import pymysql
except ImportError:
    sys.exit(f"{sys.executable} has no module pymysql; Debian's package `python3-pymysql` has it, for /usr/bin/python3")

# How long a change of the schema waits for running statements, in seconds: those that come after it wait behind it.
LOCK_WAIT = 5
BATCH = 200

EXPAND = [
    "ALTER TABLE notes ADD COLUMN IF NOT EXISTS state VARCHAR(8)",
    # That of updates first: then no row whose state is set is changed without it.
    """CREATE OR REPLACE TRIGGER notes_updated BEFORE UPDATE ON notes FOR EACH ROW
       IF NOT NEW.state <=> OLD.state THEN SET NEW.done = (NEW.state = 'done');
       ELSEIF NOT NEW.done <=> OLD.done THEN SET NEW.state = IF(NEW.done, 'done', 'open'); END IF""",
    """CREATE OR REPLACE TRIGGER notes_inserted BEFORE INSERT ON notes FOR EACH ROW
       IF NEW.state IS NULL THEN SET NEW.state = IF(NEW.done, 'done', 'open');
       ELSE SET NEW.done = (NEW.state = 'done'); END IF""",
]
MIGRATE = f"UPDATE notes SET state = IF(done, 'done', 'open') WHERE state IS NULL LIMIT {BATCH}"
CONTRACT = [
    "DROP TRIGGER IF EXISTS notes_inserted",
    "DROP TRIGGER IF EXISTS notes_updated",
    "ALTER TABLE notes DROP COLUMN IF EXISTS done",
]


def connect(url):
    parts = urlsplit(url)
    return pymysql.connect(host=parts.hostname, port=parts.port, user=parts.username, password=parts.password,
                           database=parts.path[1:], charset="utf8mb4", autocommit=True, connect_timeout=10)


class Notes(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One write for head and body: two small ones wait for each other's acknowledgement.
    wbufsize = -1

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Version", str(self.server.version))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def route(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path == "/version":
            return self.answer(200, {"version": self.server.version})
        if path == "/health":
            disabled = os.path.exists(self.server.disable_file)
            return self.answer(503 if disabled else 200, "disabled" if disabled else "ok")
        try:
            database = connect(self.server.database)
            with database, database.cursor() as cursor:
                if path == "/ready":
                    cursor.execute("SELECT 1")
                    return self.answer(200, "ready")
                return self.notes(cursor, path.removeprefix("/notes").removeprefix("/"), body)
        except pymysql.MySQLError as error:
            return self.answer(500, f"MariaDB: {error}")

    def notes(self, cursor, key, body):
        # The column of this version, and what it holds.
        column = "done" if self.server.version == 1 else "state"
        if self.command == "POST":
            new, key = json.loads(body), str(uuid.uuid4())
            insert = f"INSERT INTO notes (id, text, {column}) VALUES (%s, %s, %s)"
            cursor.execute(insert, (key, new["text"], self.stored(new["done"])))
        if self.command == "PUT":
            done = self.stored(json.loads(body)["done"])
            cursor.execute(f"UPDATE notes SET {column} = %s WHERE id = %s", (done, key))
        cursor.execute(f"SELECT id, text, {column} FROM notes WHERE id = %s", (key,))
        found = cursor.fetchone()
        if found is None:
            return self.answer(404, {"error": f"there is no note {key}"})
        if self.command == "DELETE":
            cursor.execute("DELETE FROM notes WHERE id = %s", (key,))
        done = found[2] in (1, "done", "closed")
        return self.answer(201 if self.command == "POST" else 200, {"id": found[0], "text": found[1], "done": done})

    def stored(self, done):
        if self.server.version == 1:
            return int(done)
        return ("closed" if self.server.fault == "foreign" else "done") if done else "open"

    do_GET = do_POST = do_PUT = do_DELETE = route


class Server(ThreadingHTTPServer):
    # The usual five are too few: where more connections arrive at once, the system lets them wait for a second or more.
    request_queue_size = 128


def serve(given):
    server = Server(("127.0.0.1", given.port), Notes)
    server.database, server.disable_file = given.database, given.disable_file
    server.version, server.fault = given.version, given.fault
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)


def change(given):
    database = connect(given.database)
    with database, database.cursor() as cursor:
        cursor.execute(f"SET SESSION lock_wait_timeout = {LOCK_WAIT}")
        if given.verb == "init":
            cursor.execute("CREATE TABLE notes (id CHAR(36) PRIMARY KEY, text TEXT NOT NULL, "
                           "done TINYINT NOT NULL DEFAULT 0)")
            old = [(f"seed-{n:04}", f"note {n}", n % 2) for n in range(1000)]
            cursor.executemany("INSERT INTO notes (id, text, done) VALUES (%s, %s, %s)", old)
        if given.verb == "migrate":
            while cursor.execute(MIGRATE) > 0:
                pass
        changes = {"expand": EXPAND, "contract": CONTRACT}.get(given.verb, [])
        if given.verb == "migrate" and given.fault == "hasty":
            changes = CONTRACT
        for statement in changes:
            cursor.execute(statement)
        if given.verb == "has" and not cursor.execute("SELECT id FROM notes WHERE id = %s", (given.id,)):
            sys.exit(f"there is no note {given.id}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("verb", choices=["init", "expand", "migrate", "contract", "has", "serve"])
    options.add_argument("--database", required=True, metavar="URL")
    options.add_argument("--id")
    options.add_argument("--version", type=int, default=1)
    options.add_argument("--port", type=int)
    options.add_argument("--disable-file", default="")
    options.add_argument("--fault", default="", choices=["", "foreign", "hasty"])
    given = options.parse_args()
    return serve(given) if given.verb == "serve" else change(given)


if __name__ == "__main__":
    sys.exit(main())
