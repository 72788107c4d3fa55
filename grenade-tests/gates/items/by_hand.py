#!/usr/bin/env python3
"""The upgrade that people do with a shell loop: by_hand.py FLEET PAUSE [early]. Node by node: touch the disable-file, wait
for PAUSE seconds, stop, start the new version, wait until it is ready, remove the file. With `early` it does not wait for
the end of the old version before it starts the new one."""

import json
import os
import signal
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

with open(sys.argv[1]) as file:
    fleet = json.load(file)
pause = float(sys.argv[2])
early = sys.argv[3:] == ["early"]


def runs(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def ready(node):
    try:
        return urlopen(f"http://{node['address']}{fleet['ready']}", timeout=2).status == 200
    except (URLError, OSError):
        return False


def until(what, limit=30):
    end = time.monotonic() + limit
    while not what():
        if time.monotonic() > end:
            sys.exit("it took too long")
        time.sleep(0.05)


for node in fleet["nodes"]:
    open(node["disable_file"], "w").close()
    time.sleep(pause)
    if early:
        subprocess.Popen(node["start_target"], start_new_session=True)
        time.sleep(1)
    os.kill(node["pid"], signal.SIGTERM)
    until(lambda: not runs(node["pid"]))
    if not early:
        subprocess.Popen(node["start_target"], start_new_session=True)
    until(lambda: ready(node))
    os.remove(node["disable_file"])
    time.sleep(1)
