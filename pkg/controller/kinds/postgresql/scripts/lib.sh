#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Shared by all scripts, which source this file. POSIX sh.
#
# The pod sets: STATEFULSET (its name) and SERVICE (the domain of the headless Service). Tests also set the other
# variables, because their servers share one machine.

set -eu
umask 077
export LC_ALL=C

POD_NAME=${POD_NAME:-$(hostname)}
ORDINAL=${POD_NAME##*-}
VOLUME=${VOLUME:-/postgresql}
DATA=$VOLUME/data
RUN=${RUN:-/var/run/postgresql}
CREDENTIALS=${CREDENTIALS:-/credentials}
SCRIPTS=${SCRIPTS:-/scripts}
CERTIFICATE=${CERTIFICATE:-/tls}
LISTEN=${LISTEN:-*}
MAX_REPLICAS=5
export CREDENTIALS RUN

log() { echo "$0: $*" >&2; }

fail() {
  log "$*"
  exit 1
}

# address_of sets host and port to those of the server with this ordinal.
address_of() {
  eval "host=\${HOST_$1:-$STATEFULSET-$1.$SERVICE} port=\${PORT_$1:-5432}"
}

# conninfo prints how the server with this ordinal is reached as the role "replication". The keepalives end a connection
# to a node that is gone.
conninfo() {
  address_of "$1"
  echo "host=$host port=$port user=replication passfile=$RUN/passfile application_name=$POD_NAME connect_timeout=5" \
    "keepalives_idle=30 keepalives_interval=10 keepalives_count=3"
}

# is_up reports whether the server with this ordinal accepts connections. pg_isready leaves when it is asked for the password,
# which the server does not log. The server would log the refusal of another role.
is_up() {
  address_of "$1"
  timeout 5 pg_isready --quiet --timeout=3 --host="$host" --port="$port" --username=replication --dbname=postgres
}

# runs reports whether the server with this ordinal runs. pg_isready returns 1 while a server starts or recovers.
runs() {
  status=0
  is_up "$1" || status=$?
  [ "$status" -le 1 ]
}

# local_sql runs a query on the server of this pod. The socket lies in a directory of the pod alone.
local_sql() {
  address_of "$ORDINAL"
  PGOPTIONS='-c statement_timeout=5s' psql --no-psqlrc --no-password --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 \
    --host="$RUN" --port="$port" --username=postgres --dbname=postgres "$@"
}

# primary_sql runs a query on the primary. Names and nodes that do not answer take no longer than the probes have.
primary_sql() {
  PGOPTIONS='-c statement_timeout=5s' timeout 5 psql --no-psqlrc --no-password --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 \
    "$(conninfo 0) dbname=postgres" "$@"
}

# await_primary waits until the primary lets in the role "replication". It logs each new cause of the wait.
await_primary() {
  cause=
  until answer=$(primary_sql --command='SELECT 1' 2>&1); do
    if [ "$answer" != "$cause" ]; then log "waiting for the primary: $answer"; fi
    cause=$answer
    write_passfile
    sleep "${POLL_SECONDS:-2}"
  done
}

# system_identifier prints the identifier that a primary and its standbys share.
system_identifier() { pg_controldata --pgdata="$DATA" | sed -n 's/^Database system identifier: *//p'; }

# primary_settings prints the settings that a standby must not have lower than the primary, by name. The control file has
# those of the primary.
primary_settings() {
  pg_controldata --pgdata="$DATA" | sed -n -e 's/^\(max_connections\|max_worker_processes\) setting: */\1 /p' \
    -e 's/^max_prepared_xacts setting: */max_prepared_transactions /p' -e 's/^max_locks_per_xact setting: */max_locks_per_transaction /p'
}

# configuration prints what a running server takes over when it reloads its configuration.
configuration() { cat "$SCRIPTS/parameters.conf" "$CERTIFICATE/tls.crt" 2>/dev/null || true; }

# replication_password_file prints the name of the file with the password of the role "replication".
replication_password_file() {
  if [ -s "$CREDENTIALS/replication-password" ]; then
    echo "$CREDENTIALS/replication-password"
  else
    echo "$CREDENTIALS/password"
  fi
}

# write_passfile writes the password of the role "replication" to where libpq reads it. Passwords are never arguments of
# a process, because ps shows arguments. ":" and "\" are escaped.
write_passfile() {
  { printf '*:*:*:replication:'; sed 's/[\\:]/\\&/g' "$(replication_password_file)"; } >"$RUN/passfile.$$"
  mv "$RUN/passfile.$$" "$RUN/passfile"
}
