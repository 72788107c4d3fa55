#!/usr/bin/env python3
"""A resource that must survive an upgrade of items: survival.py create|verify|destroy URL FILE, which keeps its id;
survival.py down DATABASE FILE looks at it while the service is down, survival.py there DATABASE ID at any item."""

import json
import sqlite3
import sys
from urllib.request import Request, urlopen

verb, url, file = sys.argv[1:]
item = {"name": "the survivor", "colour": "red"}


def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url + path, data=data, method=method), timeout=10) as answer:
        return json.load(answer)


if verb == "there":
    sys.exit(sqlite3.connect(url).execute("SELECT id FROM items WHERE id = ?", [file]).fetchone() != (file,))
if verb == "create":
    with open(file, "w") as kept:
        kept.write(ask("POST", "/items", item)["id"])
    sys.exit(0)
with open(file) as kept:
    key = kept.read()
if verb == "down":
    found = sqlite3.connect(url).execute("SELECT name FROM items WHERE id = ?", [key]).fetchone()
    if found != (item["name"],):
        sys.exit(f"{found} is not {item}")
elif verb == "verify":
    found = ask("GET", f"/items/{key}")
    if any(found[name] != item[name] for name in item):
        sys.exit(f"{found} is not {item}")
elif verb == "destroy":
    ask("DELETE", f"/items/{key}")
