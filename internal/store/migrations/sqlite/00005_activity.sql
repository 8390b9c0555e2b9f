-- What GET /activity tells of reasoning. Days before this have none.
-- +goose Up
ALTER TABLE spend ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE spend DROP COLUMN reasoning_tokens;
