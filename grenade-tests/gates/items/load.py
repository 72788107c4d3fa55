#!/usr/bin/env python3
"""A load of items that is no part of a gate file: load.py URL LEDGER BEGAN_MS RATE. It sends at RATE requests a second,
whether or not earlier ones were answered, until SIGTERM, and writes a line for each request into LEDGER: the columns of
requests.csv, with times in milliseconds since BEGAN_MS, a Unix time in milliseconds."""

import csv
import itertools
import json
import queue
import signal
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException

COLUMNS = ("seq scheduled_ms sent_ms first_ms done_ms own_ms kind status outcome node version written_by bytes "
           "connection reason").split()
address, ledger = sys.argv[1].removeprefix("http://"), sys.argv[2]
began, rate = int(sys.argv[3]) / 1e3, float(sys.argv[4])
lines, over = queue.Queue(), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())


def now():
    return round((time.time() - began) * 1e3, 3)


def ask(line):
    connection = HTTPConnection(address, timeout=10)
    try:
        item = json.dumps({"name": f"made by {line['seq']}", "colour": "red"})
        connection.request("POST", "/items", item, {"content-type": "application/json"})
        answer = connection.getresponse()
        line["first_ms"], body = now(), answer.read()
        line.update(status=answer.status, bytes=len(body), node=answer.getheader("x-served-by") or "")
        line["version"] = answer.getheader("x-version") or ""
        if answer.status != 201:
            return f"status {answer.status}: {body[:200].decode(errors='replace')}"
        return "" if json.loads(body)["colour"] == "red" else f"wrong content: {body[:200]}"
    except (HTTPException, OSError, ValueError) as error:
        return f"reset: {error}"
    finally:
        connection.close()


def send(seq, scheduled):
    line = dict.fromkeys(COLUMNS, "")
    line.update(seq=seq, scheduled_ms=scheduled, sent_ms=now(), own_ms=0, kind="create", bytes=0, connection="fresh")
    line["reason"] = ask(line).replace("\n", " ")
    line.update(done_ms=now(), outcome="failed" if line["reason"] else "ok")
    lines.put(line)


first, threads = time.time(), []
for seq in itertools.count():
    due = first + seq / rate
    if over.wait(max(0.0, due - time.time())):
        break
    threads.append(threading.Thread(target=send, args=(seq, round((due - began) * 1e3, 3))))
    threads[-1].start()
for thread in threads:
    thread.join()
with open(ledger, "w", newline="") as file:
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    while not lines.empty():
        writer.writerow(lines.get())
