#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Restores a dump, in steps that run in different images:
#   list   prints the stored dumps, the oldest first (rclone's image)
#   fetch  downloads the dump RESTORE_FILE, by default the newest (rclone's image)
#   load   loads the downloaded dump into the database (the database's image)
#
# load fails if the database has tables, unless RESTORE_REPLACE is "true". It then replaces the tables of the dump. The
# database is RESTORE_DATABASE, by default the database of the Backup.

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

# load_postgresql loads the dump in one transaction. A superuser restores owners and privileges. Any other user becomes the
# owner of all objects. What only a superuser may make is left out, or must exist.
load_postgresql() {
	export PGDATABASE="$target"
	objects=$(query "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
		AND nspname NOT IN ('pg_catalog', 'information_schema') AND nspname !~ '^pg_(toast|temp)'
		AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')")
	must_be_empty "$objects"
	superuser=$(query 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user')
	select_entries
	require_extensions
	set -- --use-list="$BACKUP_DIR/.entries"
	if [ "$superuser" != t ]; then set -- "$@" --no-owner --no-privileges; fi
	if [ "$replace" = true ]; then set -- "$@" --clean --if-exists; fi
	rm -f "$BACKUP_DIR/.failed"
	{
		echo 'BEGIN;'
		# Servers before version 17 do not know this parameter, which pg_restore sets at the beginning since version 17.
		{ pg_restore "$@" --file=- "$file" 2>"$BACKUP_DIR/.restore" || : >"$BACKUP_DIR/.failed"; } |
			sed '1,50{/^SET transaction_timeout = 0;$/d;}'
		if [ ! -e "$BACKUP_DIR/.failed" ]; then echo 'COMMIT;'; fi
	} | psql --no-password --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --file=- 2>"$log" >/dev/null || {
		case $(source_cause) in
		*'ERROR:  out of shared memory') source_failed 'psql failed' "database $target is unchanged: $(more_locks)" ;;
		esac
		source_failed 'psql failed' "database $target is unchanged"
	}
	if [ -e "$BACKUP_DIR/.failed" ]; then
		log=$BACKUP_DIR/.restore
		source_failed 'pg_restore failed' "database $target is unchanged"
	fi
}

# more_locks prints what to do if the server has too few locks. The transaction of the restore
# holds a lock on each table, index and sequence until it ends, and more for what it replaces. The
# number of entries of the dump is an estimate for these.
more_locks() {
	log=$BACKUP_DIR/.locks
	entries=$(grep -c '' "$BACKUP_DIR/.entries") || :
	locks=$(query "SELECT greatest(2 * locks, ceil(3.0 * $entries / sessions)) FROM (
		SELECT sum(setting::bigint) FILTER (WHERE name = 'max_locks_per_transaction') AS locks,
			1 + sum(setting::bigint) FILTER (WHERE name <> 'max_locks_per_transaction') AS sessions
		FROM pg_settings WHERE name IN ('max_locks_per_transaction', 'max_connections', 'max_prepared_transactions',
			'max_wal_senders', 'max_worker_processes', 'autovacuum_max_workers')) AS settings")
	printf '%s' "the restore is one transaction, and needs more locks than the server has: set max_locks_per_transaction of the server to $locks or more, restart the server, and restore again"
}

# query SQL [OPTION...] prints the rows of a query. The options are those of psql.
query() {
	sql=$1
	shift
	printf '%s;\n' "$sql" | psql --no-password --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@" --file=- 2>"$log" ||
		source_failed 'psql failed' "database $target is unchanged"
}

# select_entries writes the entries of the dump that are restored to the file .entries. Schemas and extensions that exist
# stay as they are.
select_entries() {
	query 'SELECT quote_ident(nspname) FROM pg_namespace' >"$BACKUP_DIR/.namespaces"
	query "SELECT 'EXTENSION - ' || extname || ' ' FROM pg_extension" >"$BACKUP_DIR/.existing"
	pg_restore --list "$file" 2>"$log" >"$BACKUP_DIR/.all" || source_failed 'pg_restore failed' "database $target is unchanged"
	grep -E '^[0-9]+; [0-9]+ [0-9]+ (SCHEMA -|COMMENT - SCHEMA) ' "$BACKUP_DIR/.all" >"$BACKUP_DIR/.schemas" || :
	while IFS= read -r line; do
		if schema_of "$line" | grep -qxF -f "$BACKUP_DIR/.namespaces"; then printf '%s\n' "$line" >>"$BACKUP_DIR/.existing"; fi
	done <"$BACKUP_DIR/.schemas"
	: >"$BACKUP_DIR/.left-out"
	awk -v superuser="$superuser" -v left_out="$BACKUP_DIR/.left-out" '
		FILENAME == ARGV[1] { existing[$0]; next }
		/^;/ { next }
		{
			entry = $0
			sub(/^[0-9]+; [0-9]+ [0-9]+ /, "", entry)
			if (entry ~ /^COMMENT - EXTENSION / || entry in existing || $0 in existing) next
			if (superuser != "t" && entry ~ /^(COMMENT - )?(EVENT TRIGGER|PUBLICATION|SUBSCRIPTION) /) {
				print entry >left_out
				next
			}
			print
		}' "$BACKUP_DIR/.existing" "$BACKUP_DIR/.all" >"$BACKUP_DIR/.entries"
	while read -r entry; do
		echo "left out, because only a superuser may make it: $entry"
	done <"$BACKUP_DIR/.left-out"
}

# schema_of LINE prints the quoted name of the schema that an entry of the dump creates or comments. The entry itself has the
# name and the owner, which may both have spaces.
schema_of() {
	printf '%s\n' "$1" >"$BACKUP_DIR/.entry"
	pg_restore --use-list="$BACKUP_DIR/.entry" --no-owner --no-privileges --file=- "$file" 2>/dev/null |
		sed -nE 's/^CREATE SCHEMA (.*);$/\1/p; s/^COMMENT ON SCHEMA ("([^"]|"")*"|[^ "]+) IS .*/\1/p'
}

# require_extensions ends the script if an extension of the dump does not exist in the database, and the user may not create
# it.
require_extensions() {
	sed -n 's/^[0-9]*; [0-9]* [0-9]* EXTENSION - \(.*\) $/\1/p' "$BACKUP_DIR/.entries" >"$BACKUP_DIR/.extensions"
	missing=
	while read -r extension; do
		# source_failed ends the subshell only.
		if ! (query 'BEGIN; CREATE EXTENSION :"extension" CASCADE; ROLLBACK' --set="extension=$extension") >/dev/null 2>&1; then
			report "$errors"
			missing="$missing CREATE EXTENSION \"$extension\";"
		fi
	done <"$BACKUP_DIR/.extensions"
	if [ -n "$missing" ]; then
		fail 11 "database $target is unchanged: it lacks extensions that user $BACKUP_USERNAME may not create: as a superuser, run in it:$missing"
	fi
}

# load_mysql loads the dump statement by statement. If that fails in a database that was empty, the database is emptied
# again.
load_mysql() {
	program=mysql
	set -- --defaults-extra-file="$login" --host="$BACKUP_HOST" --port="$BACKUP_PORT" --protocol=tcp --batch --raw --skip-column-names \
		--max-allowed-packet=1G --database="$target"
	# A statement that fails has rows. MySQL's client never prints it.
	if command -v mariadb >/dev/null; then
		program=mariadb
		set -- "$@" --loose-skip-print-query-on-error
	fi
	objects=$(drops | "$program" "$@" 2>"$log") || source_failed "$program failed"
	must_be_empty "$(printf '%s' "$objects" | grep -c '' || :)"
	gzip -t "$file" || fail 11 'the dump cannot be read'
	keeps_definers=$(may_set_definers | "$program" "$@" 2>"$log") || source_failed "$program failed"
	packet=$(echo 'SELECT @@max_allowed_packet;' | "$program" "$@" 2>"$log") || source_failed "$program failed"
	if [ "$keeps_definers" = 0 ]; then echo "user $BACKUP_USERNAME becomes the definer of views, triggers, routines and events"; fi
	if [ -n "$objects" ]; then echo "a restore that fails from here on leaves database $target with objects of the dump and of before"; fi
	if gzip -dc "$file" | definers "$keeps_definers" | "$program" "$@" 2>"$log"; then return; fi
	if [ -n "$objects" ]; then load_failed "database $target has objects of the dump and of before"; fi
	left=$({ { echo 'SET FOREIGN_KEY_CHECKS = 0;' && drops | "$program" "$@"; } | "$program" "$@" && drops | "$program" "$@"; } 2>/dev/null) ||
		left=unknown
	if [ -n "$left" ]; then load_failed "database $target has a part of the dump"; fi
	load_failed "database $target is empty again"
}

# load_failed STATE ends the script after the client of MySQL failed. The server ends the connection if a statement is larger
# than max_allowed_packet. A row is one statement at least, in which each byte of a binary value takes two.
load_failed() {
	advice=
	case $(source_cause) in
	'ERROR 1153 '* | 'ERROR 2006 '* | 'ERROR 2013 '*)
		if [ "$packet" -lt 1073741824 ]; then
			advice=": the dump may have a row that is larger than max_allowed_packet of the server, $packet bytes: as an administrator, run SET GLOBAL max_allowed_packet = 1073741824, and restore again"
		fi
		;;
	esac
	source_failed "$program failed" "$1$advice"
}

# definers NUMBER copies a dump. If NUMBER is 0, it drops the definers, so the user who restores becomes the definer. Rows of
# tables are never at the beginning of a line.
definers() {
	if [ "$1" = 0 ]; then
		sed -E '/^(\/\*!50013|\/\*!50003 CREATE\*\/ \/\*!50017|\/\*!50106 CREATE\*\/ \/\*!50117|CREATE) DEFINER=/s/ DEFINER=(`([^`]|``)*`|[^ @`]+)@(`([^`]|``)*`|[^ `*]+)//'
	else
		cat
	fi
}

# may_set_definers prints a query that returns 0 if the user may not make objects of other definers. In MariaDB, SUPER no longer
# includes this since version 11.
may_set_definers() {
	cat <<'SQL'
SELECT count(*) FROM information_schema.user_privileges
	WHERE (privilege_type IN ('SET USER', 'SET_USER_ID', 'SET_ANY_DEFINER')
		OR privilege_type = 'SUPER' AND NOT (version() LIKE '%MariaDB%' AND version() + 0 >= 11))
	AND grantee = CONCAT('''', LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - LOCATE('@', REVERSE(CURRENT_USER()))),
		'''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''');
SQL
}

# drops prints a query that returns a statement for each object of a database of MySQL, which drops the object. Triggers are
# dropped with their tables.
drops() {
	cat <<'SQL'
SELECT CONCAT('DROP ', IF(table_type = 'VIEW', 'VIEW', 'TABLE'), ' IF EXISTS `', REPLACE(table_name, '`', '``'), '`;')
	FROM information_schema.tables WHERE table_schema = database()
UNION ALL SELECT CONCAT('DROP ', routine_type, ' IF EXISTS `', REPLACE(routine_name, '`', '``'), '`;')
	FROM information_schema.routines WHERE routine_schema = database()
UNION ALL SELECT CONCAT('DROP EVENT IF EXISTS `', REPLACE(event_name, '`', '``'), '`;')
	FROM information_schema.events WHERE event_schema = database();
SQL
}

load_mongodb() {
	if [ "$target" = "$BACKUP_DATABASE" ] && [ "$replace" != true ]; then
		fail 11 "a restore into database $target adds documents that were deleted since: restore into another database, or replace its collections"
	fi
	echo "a restore that fails from here on leaves the documents that it loaded until then in database $target"
	set -- --config="$login" --host="$BACKUP_HOST" --port="$BACKUP_PORT" --username="$BACKUP_USERNAME" \
		--authenticationDatabase=admin --archive="$file" --gzip --nsInclude="$BACKUP_DATABASE.*" \
		--nsFrom="$BACKUP_DATABASE.*" --nsTo="$target.*"
	if [ "$replace" = true ]; then set -- "$@" --drop; fi
	mongorestore "$@" 2>"$log" || source_failed 'mongorestore failed'
	# mongorestore succeeds if it loads nothing, and if the database refuses documents.
	grep -q 'finished restoring' "$log" || fail 11 "nothing was loaded: the dump has no collections of database $BACKUP_DATABASE"
	if ! grep -q '[^0-9]0 document(s) failed to restore' "$log"; then
		report "$errors"
		fail 11 "database $target refused documents, for example because it has others with the same _id: $(cause)"
	fi
}

# must_be_empty NUMBER ends the script if the database has objects that may not be replaced.
must_be_empty() {
	if [ "$1" -gt 0 ] && [ "$replace" != true ]; then
		fail 11 "database $target has $1 tables or other objects: restore into an empty database, or replace them"
	fi
}

load() {
	file=
	for found in "$BACKUP_DIR/$BACKUP_NAME"-*; do
		if is_dump "${found##*/}"; then file=$found; fi
	done
	if [ -z "$file" ]; then fail 11 'there is no dump to load: run fetch first'; fi
	target=${RESTORE_DATABASE:-$BACKUP_DATABASE}
	replace=${RESTORE_REPLACE:-false}
	connect
	"load_$BACKUP_TYPE"
	rm -f "$login"
	echo "loaded ${file##*/} into database $target of $BACKUP_HOST"
}

case ${1:-} in
list | fetch | load) "$1" ;;
*) fail 30 'run restore.sh with list, fetch or load' ;;
esac
