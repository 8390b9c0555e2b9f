-- How many requests and tokens a key may use in a minute; 0 is no limit.
-- +goose Up
ALTER TABLE keys ADD COLUMN requests_per_minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN tokens_per_minute INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE keys DROP COLUMN tokens_per_minute;
ALTER TABLE keys DROP COLUMN requests_per_minute;
