-- As the sums of spend have it.
-- +goose Up
ALTER TABLE deleted ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE deleted DROP COLUMN reasoning_tokens;
