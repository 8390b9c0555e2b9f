-- Records are read by time, summed by day and, in the end, deleted. day is the date that created_at has in the record itself,
-- in the zone that ruled when it was made: what spend counts it to.
-- +goose Up
ALTER TABLE generations ADD COLUMN day TEXT NOT NULL DEFAULT '';
UPDATE generations SET day = substr(json_extract(CAST(record AS TEXT), '$.created_at'), 1, 10)
	WHERE json_valid(CAST(record AS TEXT)) AND json_extract(CAST(record AS TEXT), '$.created_at') IS NOT NULL;
CREATE INDEX generations_created ON generations (created_at);

-- What the records that were deleted add up to. Spend keeps counting them: it is the sum of the records and of this.
CREATE TABLE deleted (
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
DROP TABLE deleted;
DROP INDEX generations_created;
ALTER TABLE generations DROP COLUMN day;
