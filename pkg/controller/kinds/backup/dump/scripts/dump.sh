#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Dumps the database into one file, whose name has the time in UTC. The file gets its name when it is complete.

. "${0%/*}/lib.sh"

dump_postgresql() {
	pg_dump --no-password --format=custom --file="$part" 2>"$log" || source_failed 'pg_dump failed'
	pg_restore --list "$part" 2>"$log" >/dev/null || source_failed 'the dump cannot be read'
}

dump_mysql() {
	program=mysqldump
	if command -v mariadb-dump >/dev/null; then program=mariadb-dump; fi
	set -- --defaults-extra-file="$login" --host="$BACKUP_HOST" --port="$BACKUP_PORT" --protocol=tcp \
		--single-transaction --quick --routines --triggers --events --hex-blob --no-tablespaces --max-allowed-packet=1G
	case $("$program" --version) in
	*MariaDB*) ;;
	*) set -- "$@" --set-gtid-purged=OFF --column-statistics=0 ;;
	esac
	# The status of the first program of a pipe is lost, so it is written to a file.
	{
		status=0
		"$program" "$@" -- "$BACKUP_DATABASE" 2>"$log" || status=$?
		echo "$status" >"$BACKUP_DIR/.status"
	} | gzip >"$part" || fail 11 'gzip failed: the volume of the dump may be full'
	if [ "$(cat "$BACKUP_DIR/.status")" -ne 0 ]; then source_failed "$program failed"; fi
	case $(gzip -dc "$part" | tail -n 1) in
	'-- Dump completed'*) ;;
	*) fail 11 "$program failed: the dump has no end" ;;
	esac
}

dump_mongodb() {
	mongodump --config="$login" --host="$BACKUP_HOST" --port="$BACKUP_PORT" --username="$BACKUP_USERNAME" \
		--authenticationDatabase=admin --db="$BACKUP_DATABASE" --archive="$part" --gzip 2>"$log" || source_failed 'mongodump failed'
	# mongodump succeeds if there is no such database.
	grep -q 'done dumping' "$log" || fail 10 "database $BACKUP_DATABASE does not exist, or has no collections"
}

name=$BACKUP_NAME-$(date -u +%Y%m%dT%H%M%SZ).$(extension)
part=$BACKUP_DIR/.part
rm -f "$BACKUP_DIR/$BACKUP_NAME"-* "$part"
connect
"dump_$BACKUP_TYPE"
rm -f "$login"
if [ ! -s "$part" ]; then fail 11 'the dump is empty'; fi
mv "$part" "$BACKUP_DIR/$name"
echo "dumped database $BACKUP_DATABASE of $BACKUP_HOST to $name, $(wc -c <"$BACKUP_DIR/$name" | tr -d ' ') bytes"
