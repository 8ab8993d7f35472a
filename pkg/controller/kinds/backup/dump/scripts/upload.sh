#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Uploads the dump, compares the stored file with it, and then deletes the dumps that are older than the retention. Before
# both steps, the object BACKUP_NAME.owner must name this Backup.

. "${0%/*}/lib.sh"

# claim makes this Backup the owner of the dumps of its name, unless another Backup is. The record has the UID of the owner
# and the UID of its namespace. A record with another UID and the same namespace is that of a deleted Backup, because a
# namespace has one Backup of a name. Any other owner may be in use in another cluster. Only a user can tell whether its
# dumps may be pruned, by BACKUP_TAKE_OVER_FROM.
claim() {
	transfer cat --max-depth 1 --include "/$BACKUP_NAME.owner" "$(destination)" >"$BACKUP_DIR/.owner" ||
		destination_failed 22 "the upload failed: $BACKUP_NAME.owner cannot be read"
	owner=$(sed -n 1p "$BACKUP_DIR/.owner" | cut -c 1-100)
	namespace=$(sed -n 2p "$BACKUP_DIR/.owner" | cut -c 1-100)
	if [ "$owner" = "$BACKUP_UID" ] && { [ -z "$BACKUP_NAMESPACE_UID" ] || [ "$namespace" = "$BACKUP_NAMESPACE_UID" ]; }; then
		return
	fi
	case $owner in
	'' | "$BACKUP_UID") ;;
	"$BACKUP_TAKE_OVER_FROM") echo "took over the dumps of the Backup with the UID $owner, because spec.destination.takeOverFrom names it" ;;
	*)
		if [ -z "$namespace" ] || [ "$namespace" != "$BACKUP_NAMESPACE_UID" ]; then
			fail 25 "the dumps in $(destination) belong to another Backup, which has the UID $owner"
		fi
		echo "took over the dumps of the deleted Backup with the UID $owner"
		;;
	esac
	printf '%s\n%s\n' "$BACKUP_UID" "$BACKUP_NAMESPACE_UID" >"$BACKUP_DIR/.owner"
	transfer copyto "$BACKUP_DIR/.owner" "$(destination)/$BACKUP_NAME.owner" ||
		destination_failed 22 "the upload failed: $BACKUP_NAME.owner cannot be written"
}

# prune deletes dumps of this Backup by the time in their names. Other files, and the newest dump, are never deleted.
prune() {
	oldest=$(date -u -d "@$(($(date +%s) - BACKUP_RETENTION_SECONDS))" +%Y%m%d%H%M%S)
	transfer lsf --files-only --include "/$BACKUP_NAME-*" "$(destination)" >"$BACKUP_DIR/.list" ||
		prune_failed 'the stored dumps cannot be listed'
	while read -r old; do
		if ! is_dump "$old" || [ "$old" = "$name" ]; then continue; fi
		time=${old#"$BACKUP_NAME-"}
		time=${time%%Z*}
		if [ "${time%T*}${time#*T}" -ge "$oldest" ]; then continue; fi
		transfer deletefile "$(destination)/$old" || prune_failed "$old cannot be deleted"
		echo "deleted $old, which is older than the retention"
	done <"$BACKUP_DIR/.list"
}

prune_failed() {
	report .
	fail 24 "$name is stored, but $1: $(cause)"
}

name=
for file in "$BACKUP_DIR/$BACKUP_NAME"-*; do
	if is_dump "${file##*/}"; then name=${file##*/}; fi
done
if [ -z "$name" ]; then fail 11 'there is no dump to upload'; fi
claim
transfer copyto "$BACKUP_DIR/$name" "$(destination)/$name" || destination_failed 22 'the upload failed'
transfer check --one-way --max-depth 1 --include "/$name" "$BACKUP_DIR" "$(destination)" || destination_failed 23 'the stored file differs from the dump'
echo "stored $name in $(destination)"
claim
prune
