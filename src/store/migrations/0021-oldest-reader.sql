-- The oldest program that still works with a migration applied, as the schema that the program knows. Programs that know
-- at least the maximum of this column run on the database, even if it has later migrations.
ALTER TABLE migration ADD COLUMN oldest_reader BIGINT NOT NULL DEFAULT 0;

-- The schema that each running process knows. NULL: a process from before this column. A migration that removes
-- something waits until no running process needs it.
ALTER TABLE incarnation ADD COLUMN schema_known BIGINT;
