-- How long a key lives, and whose it is. Times are unix milliseconds, 0 is never. A deleted key is disabled for good and in no
-- list; it stays so that records can say whose they are.
-- +goose Up
ALTER TABLE keys ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN owner TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keys DROP COLUMN owner;
ALTER TABLE keys DROP COLUMN expires_at;
ALTER TABLE keys DROP COLUMN updated_at;
ALTER TABLE keys DROP COLUMN deleted;
