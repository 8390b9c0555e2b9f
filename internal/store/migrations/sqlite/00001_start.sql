-- +goose Up
CREATE TABLE IF NOT EXISTS meta (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID;

-- Keys: of the key itself only the SHA-256. created_at is unix milliseconds.
CREATE TABLE IF NOT EXISTS keys (
	id         TEXT PRIMARY KEY,
	hash       BLOB NOT NULL UNIQUE,
	name       TEXT NOT NULL,
	label      TEXT NOT NULL,
	admin      INTEGER NOT NULL,
	disabled   INTEGER NOT NULL DEFAULT 0,
	created_at INTEGER NOT NULL
);

-- Every change of a key counts this up, whoever made it, so that others see it with one short read.
INSERT INTO meta (name, value) VALUES ('keys_version', 0) ON CONFLICT DO NOTHING;
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS keys_inserted AFTER INSERT ON keys BEGIN
	UPDATE meta SET value = value + 1 WHERE name = 'keys_version';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS keys_updated AFTER UPDATE ON keys BEGIN
	UPDATE meta SET value = value + 1 WHERE name = 'keys_version';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS keys_deleted AFTER DELETE ON keys BEGIN
	UPDATE meta SET value = value + 1 WHERE name = 'keys_version';
END;
-- +goose StatementEnd

-- One row per recorded request; record is its JSON as it stood in the journal, seq its sequence there.
CREATE TABLE IF NOT EXISTS generations (
	id                TEXT PRIMARY KEY,
	seq               INTEGER NOT NULL,
	key_id            TEXT NOT NULL,
	created_at        INTEGER NOT NULL, -- unix milliseconds
	model             TEXT NOT NULL,
	provider          TEXT NOT NULL,    -- slug
	endpoint          TEXT NOT NULL,
	prompt_tokens     INTEGER NOT NULL,
	completion_tokens INTEGER NOT NULL,
	cost_nano         INTEGER NOT NULL, -- 10^-9 of currency
	currency          TEXT NOT NULL,
	http              INTEGER NOT NULL,
	record            BLOB NOT NULL
);

-- Sums per day (of the zone the record's created_at carries).
CREATE TABLE IF NOT EXISTS spend (
	key_id            TEXT NOT NULL,
	day               TEXT NOT NULL, -- YYYY-MM-DD
	model             TEXT NOT NULL,
	provider          TEXT NOT NULL,
	currency          TEXT NOT NULL,
	cost_nano         INTEGER NOT NULL,
	requests          INTEGER NOT NULL,
	prompt_tokens     INTEGER NOT NULL,
	completion_tokens INTEGER NOT NULL,
	PRIMARY KEY (key_id, day, model, provider, currency)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE spend;
DROP TABLE generations;
DROP TABLE keys;
DROP TABLE meta;
