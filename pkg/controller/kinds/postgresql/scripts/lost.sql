-- Whether a standby of this primary can never follow it again: "ahead" or "diverged" if it has data that the primary may lack,
-- "behind" if all its data was the primary's; and the position of the primary. The last 16 digits of a file name of WAL are its
-- position, and the first 8 its timeline.
SELECT CASE
    WHEN pg_current_wal_lsn() < :'position'::pg_lsn THEN 'ahead'
    WHEN EXISTS (SELECT FROM pg_ls_waldir() WHERE substr(name, 9) = substr(pg_walfile_name(:'position'), 9)) THEN ''
    WHEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) <> :'timeline' THEN 'diverged'
    ELSE 'behind'
  END, pg_current_wal_lsn()
  WHERE (SELECT system_identifier FROM pg_control_system()) = :'system'::bigint;
