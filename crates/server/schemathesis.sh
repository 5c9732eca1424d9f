#!/bin/sh
# Tests the REST routes from their own OpenAPI document, bounded, against a server in memory.
# Needs python3 and, the first time, PyPI.
set -eu
cd "$(dirname "$0")/../.."
port="${1:-8099}"
venv=target/venv
if [ ! -x "$venv/bin/schemathesis" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet 'schemathesis==4.32.5'
fi
cargo build --quiet --package tenure-server --example rest
target/debug/examples/rest "127.0.0.1:$port" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
# It leaves its notes where it runs.
cd target
venv/bin/schemathesis --config-file ../crates/server/schemathesis.toml run \
    --wait-for-schema 20 --request-timeout 70 "http://127.0.0.1:$port/openapi.json"
