# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Functions of the other scripts. The shell is POSIX, because the images have bash, dash or busybox. All values of a
# Backup and of its Secrets come by environment. No secret is an argument of a program, because other processes can read
# arguments.
#
# Exit codes, by which the operator names the field that is wrong:
#   10  the database refuses the login, or does not have the database
#   11  the dump, or the restore, failed for another reason
#   20  the bucket refuses access
#   21  the bucket does not exist
#   22  the transfer failed for another reason
#   23  the stored file differs from the dump
#   24  the new file is stored, but files past the retention could not be deleted
#   25  the dumps in the bucket belong to another Backup
#   30  the settings are invalid

set -eu
umask 077
export LC_ALL=C

log=$BACKUP_DIR/.log
login=$BACKUP_SECRETS_DIR/login
newline='
'
# errors matches the lines in which a program of a database, or its server, reports an error. The other lines can have
# statements and rows, so they are never printed.
errors='^(ERROR [0-9]|psql:.*(ERROR|FATAL|PANIC|error): |connection to server .* failed: |pg_(dump|restore): .*([Ee]rror|ERROR|FATAL): |(mariadb|mysql)(-dump|dump)?: [^[]|[^ ]+[[:space:]]Failed: )'

# fail CODE MESSAGE ends the script. The message, in one line, becomes the termination message of the container.
fail() {
	message=$(printf '%s' "$2" | tr '\r\n\t' '   ' | cut -c 1-1000)
	printf '%s\n' "$message" >&2
	printf '%s' "$message" 2>/dev/null >"${TERMINATION_LOG:-/dev/termination-log}" || :
	exit "$1"
}

# shown LINE prints the beginning of a line of a program's output, unless the line has a secret.
shown() {
	for secret in "${BACKUP_PASSWORD:-}" "${RCLONE_CONFIG_DEST_SECRET_ACCESS_KEY:-}" "${RCLONE_CONFIG_DEST_KEY:-}" \
		"${RCLONE_CONFIG_DEST_SERVICE_ACCOUNT_CREDENTIALS:-}" "${RCLONE_CONFIG_DEST_SESSION_TOKEN:-}" "${HTTPS_PROXY:-}" \
		'PRIVATE KEY'; do
		case $1 in
		*"$secret"*)
			if [ -n "$secret" ]; then
				printf 'the message is left out, because it has a secret\n'
				return
			fi
			;;
		esac
	done
	printf '%s\n' "$1" | cut -c 1-500
}

# report PATTERN prints the first lines of the last program's output that match a pattern.
report() {
	grep -m 50 -E "$1" "$log" | while IFS= read -r line; do shown "$line"; done >&2
}

# cause prints the last line of the last program's output.
cause() {
	line=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1) || :
	shown "${line:-there is no message}"
}

# source_cause prints the first line with an error of a program of the database. A program that fails without such a line
# did not run a statement.
source_cause() {
	line=$(grep -m 1 -E "$errors" "$log") || :
	if [ -z "$line" ]; then
		cause
	else
		shown "$line"
	fi
}

# extension prints how the name of a dump of this type ends.
extension() {
	case $BACKUP_TYPE in
	postgresql) printf dump ;;
	mysql) printf sql.gz ;;
	mongodb) printf archive.gz ;;
	*) fail 30 "spec.source.type: there is no type $BACKUP_TYPE" ;;
	esac
}

# is_dump NAME tells whether a file name is that of a dump of this Backup: its name, the time in UTC and
# the extension of its type.
is_dump() {
	case ${1#"$BACKUP_NAME-"} in
	"$1") return 1 ;;
	[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]Z."$(extension)") ;;
	*) return 1 ;;
	esac
}

# connect prepares the login of the database's programs. Programs that do not take the password by environment read it
# from a file in memory.
connect() {
	case $BACKUP_USERNAME$BACKUP_PASSWORD in
	*"$newline"*) fail 10 'spec.source.connection.credentialsSecret: username or password has a line break: store it without' ;;
	esac
	rm -f "$login"
	case $BACKUP_TYPE in
	postgresql)
		export PGHOST="$BACKUP_HOST" PGPORT="$BACKUP_PORT" PGDATABASE="$BACKUP_DATABASE"
		export PGUSER="$BACKUP_USERNAME" PGPASSWORD="$BACKUP_PASSWORD" PGCONNECT_TIMEOUT=30
		# A server that asks for the password in cleartext could be another than that of the Backup. libpq before version 16
		# ignores this variable.
		export PGREQUIREAUTH='!password'
		;;
	mysql)
		# In an option file, a backslash begins an escape sequence, and quotes keep blanks and #. A quote without a backslash
		# ends the quoted text.
		printf '[client]\nuser="%s"\npassword="%s"\n' "$(escaped "$BACKUP_USERNAME")" "$(escaped "$BACKUP_PASSWORD")" >"$login"
		;;
	mongodb)
		printf 'password: "%s"\n' "$(escaped "$BACKUP_PASSWORD")" >"$login"
		;;
	esac
}

# escaped TEXT prints a text with a backslash before each backslash and each double quote.
escaped() {
	printf '%s' "$1" | sed 's/[\\"]/\\&/g'
}

# source_failed PROGRAM [STATE] ends the script after a program of the database failed. STATE says what the database has now.
# An error of a statement can have the same words as a refused login, but without FATAL.
source_failed() {
	report "$errors"
	case $(grep -m 50 -E "$errors" "$log") in
	*'authentication failed'* | *'authentication method requirement'* | *'Authentication failed'* | *'Access denied for user'* | \
		*'no pg_hba.conf entry'* | *'pg_hba.conf rejects connection'* | *'Unknown database'* | *'FATAL:  role "'*'" does not exist'* | \
		*'FATAL:  database "'*'" does not exist'*)
		fail 10 "the database refuses the login: $(source_cause)"
		;;
	esac
	fail 11 "$1: $(source_cause)${2:+: $2}"
}

# destination prints where the dumps are, in rclone's notation.
destination() {
	printf 'DEST:%s' "$BACKUP_BUCKET${BACKUP_PREFIX:+/$BACKUP_PREFIX}"
}

# transfer runs rclone, which is configured by the environment variables RCLONE_CONFIG_DEST_*. Keys never have white space.
# A line break that an editor or echo added would end in an error about an HTTP header or a signature.
transfer() {
	case ${RCLONE_CONFIG_DEST_ACCESS_KEY_ID:-}${RCLONE_CONFIG_DEST_SECRET_ACCESS_KEY:-}${RCLONE_CONFIG_DEST_SESSION_TOKEN:-}${RCLONE_CONFIG_DEST_ACCOUNT:-}${RCLONE_CONFIG_DEST_KEY:-}${HTTPS_PROXY:-} in
	*[[:space:]]*) fail 20 'a value in the Secret has a blank or a line break: store it without' ;;
	esac
	RCLONE_CONFIG=/dev/null RCLONE_CACHE_DIR=$BACKUP_DIR/.cache rclone \
		--retries 3 --low-level-retries 5 --contimeout 30s --timeout 5m --stats 0 "$@" 2>"$log"
}

# destination_failed CODE MESSAGE ends the script after rclone failed.
destination_failed() {
	report .
	case $(cat "$log") in
	*NoSuchBucket* | *ContainerNotFound* | *'bucket does not exist'* | *'directory not found'*)
		fail 21 "bucket $BACKUP_BUCKET does not exist: $(cause)"
		;;
	*AccessDenied* | *Forbidden* | *InvalidAccessKeyId* | *SignatureDoesNotMatch* | *AuthenticationFailed* | *AuthorizationFailure* | \
		*NoCredentialProviders* | *'no EC2 IMDS role found'* | *'failed to refresh cached credentials'* | *AssumeRoleWithWebIdentity* | \
		*'could not find default credentials'* | *DefaultAzureCredential* | \
		*AuthorizationPermissionMismatch* | *invalid_grant* | *'status code: 401'* | *'status code: 403'* | *'Error 401'* | *'Error 403'* | *'StatusCode: 403'*)
		fail 20 "bucket $BACKUP_BUCKET refuses access: $(cause)"
		;;
	esac
	fail "$1" "$2: $(cause)"
}
