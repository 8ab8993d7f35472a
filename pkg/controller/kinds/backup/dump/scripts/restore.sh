#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Restores a dump, in steps that run in different images:
#   list   prints the stored dumps, the oldest first (rclone's image)
#   fetch  downloads the dump RESTORE_FILE, by default the newest (rclone's image)
#   load   loads the downloaded dump into the database (the database's image)
#
# load fails if the database has tables, unless RESTORE_REPLACE is "true". It then replaces the tables of the dump.

. "${0%/*}/lib.sh"

list() {
	transfer lsf --files-only --include "/$BACKUP_NAME-*" "$(destination)" >"$BACKUP_DIR/.list" ||
		destination_failed 22 'the stored dumps cannot be listed'
	while read -r name; do
		if is_dump "$name"; then printf '%s\n' "$name"; fi
	done <"$BACKUP_DIR/.list" | sort
}

fetch() {
	dumps=$(list)
	name=${RESTORE_FILE:-$(printf '%s' "$dumps" | tail -n 1)}
	case $newline$dumps$newline in
	*"$newline$name$newline"*) ;;
	*) fail 22 "$(destination) has no dump ${name:-of this Backup}" ;;
	esac
	if [ -z "$name" ]; then fail 22 "$(destination) has no dump of this Backup"; fi
	rm -f "$BACKUP_DIR/$BACKUP_NAME"-*
	transfer copyto "$(destination)/$name" "$BACKUP_DIR/$name" || destination_failed 22 'the download failed'
	transfer check --one-way --max-depth 1 --include "/$name" "$(destination)" "$BACKUP_DIR" || destination_failed 23 'the download differs from the stored file'
	echo "fetched $name"
}

load_postgresql() {
	tables=$(psql --no-password --no-psqlrc --tuples-only --no-align --command "SELECT count(*) FROM pg_stat_user_tables" 2>"$log") ||
		source_failed 'psql failed'
	must_be_empty "$tables"
	set -- --no-owner --no-privileges
	if [ "${RESTORE_REPLACE:-}" = true ]; then set -- "$@" --clean --if-exists; fi
	pg_restore "$@" --file="$BACKUP_DIR/.sql" "$file" 2>"$log" || source_failed 'pg_restore failed'
	# Servers before version 17 do not know this parameter, which pg_restore sets at the beginning since version 17.
	sed '1,50{/^SET transaction_timeout = 0;$/d;}' "$BACKUP_DIR/.sql" |
		psql --no-password --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --single-transaction --file=- 2>"$log" >/dev/null ||
		source_failed 'psql failed'
	rm -f "$BACKUP_DIR/.sql"
}

load_mysql() {
	program=mysql
	if command -v mariadb >/dev/null; then program=mariadb; fi
	set -- --defaults-extra-file="$login" --host="$BACKUP_HOST" --port="$BACKUP_PORT" --protocol=tcp --batch --skip-column-names
	tables=$("$program" "$@" --execute='SELECT count(*) FROM information_schema.tables WHERE table_schema = database()' \
		--database="$BACKUP_DATABASE" 2>"$log") || source_failed "$program failed"
	must_be_empty "$tables"
	gzip -t "$file" || fail 11 'the dump cannot be read'
	gzip -dc "$file" | "$program" "$@" --database="$BACKUP_DATABASE" 2>"$log" || source_failed "$program failed"
}

load_mongodb() {
	set -- --config="$login" --host="$BACKUP_HOST" --port="$BACKUP_PORT" --username="$BACKUP_USERNAME" \
		--authenticationDatabase=admin --archive="$file" --gzip --nsInclude="$BACKUP_DATABASE.*"
	if [ "${RESTORE_REPLACE:-}" = true ]; then set -- "$@" --drop; fi
	mongorestore "$@" 2>"$log" || source_failed 'mongorestore failed'
}

# must_be_empty NUMBER ends the script if the database has tables that may not be replaced.
must_be_empty() {
	if [ "$1" -gt 0 ] && [ "${RESTORE_REPLACE:-}" != true ]; then
		fail 11 "database $BACKUP_DATABASE has $1 tables: restore into an empty database, or set RESTORE_REPLACE to true"
	fi
}

load() {
	file=
	for found in "$BACKUP_DIR/$BACKUP_NAME"-*; do
		if is_dump "${found##*/}"; then file=$found; fi
	done
	if [ -z "$file" ]; then fail 11 'there is no dump to load: run fetch first'; fi
	connect
	"load_$BACKUP_TYPE"
	rm -f "$login"
	echo "loaded ${file##*/} into database $BACKUP_DATABASE of $BACKUP_HOST"
}

case ${1:-} in
list | fetch | load) "$1" ;;
*) fail 30 'run restore.sh with list, fetch or load' ;;
esac
