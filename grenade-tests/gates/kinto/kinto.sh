#!/bin/sh
# Kinto for a gate: installed from PyPI by pinned hashes, with a configuration of its own.
#
#   kinto.sh install VERSION             into target/kinto/VERSION, once, with the version.json of /v1/__version__
#   kinto.sh migrate VERSION URL         Kinto's own migration of its PostgreSQL schema
#   kinto.sh serve VERSION URL PORT DIR  under gunicorn, with its configuration in DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
verb=$1 version=$2
installed=$here/../../../target/kinto/$version

# SQLAlchemy wants the long name of the scheme.
configuration() {
    url=postgresql${1#postgres}
    cat <<INI
[server:main]
use = egg:waitress#main
[app:main]
use = egg:kinto
kinto.includes = kinto.plugins.default_bucket
multiauth.policies = basicauth
kinto.userid_hmac_secret = a-gate
kinto.storage_backend = kinto.core.storage.postgresql
kinto.storage_url = $url
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.postgresql
kinto.permission_url = $url
kinto.backoff = 0
kinto.version_json_path = $installed/version.json
INI
}

case $verb in
install)
    if [ ! -x "$installed/bin/kinto" ]; then
        python3 -m venv "$installed"
        "$installed/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
            -r "$here/requirements-$version.txt"
    fi
    # The package says its version, so that a wrong installation is seen. A deployment writes this file; Kinto serves it as
    # it is, and answers 500 without it.
    said=$(PYTHONWARNINGS=ignore "$installed/bin/kinto" version)
    printf '{"name": "kinto", "version": "%s", "source": "https://pypi.org/project/kinto/"}\n' "$said" \
        > "$installed/version.json"
    ;;
migrate)
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
    configuration "$3" > "$directory/kinto.ini"
    "$installed/bin/kinto" migrate --ini "$directory/kinto.ini"
    ;;
serve)
    ini=$5/kinto-$version.ini
    configuration "$3" > "$ini"
    KINTO_INI=$ini exec "$installed/bin/gunicorn" --chdir "$here" --bind "127.0.0.1:$4" --workers 1 --threads 8 \
        --graceful-timeout 10 --log-level warning app:application
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
