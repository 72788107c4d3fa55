"""Kinto as a WSGI application, for gunicorn."""

import configparser
import os

from kinto import main

config = configparser.ConfigParser()
config.read(os.environ["KINTO_INI"])
application = main(config.items("DEFAULT"), **dict(config.items("app:main")))
