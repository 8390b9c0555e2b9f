-- A key may forbid that its prompts and answers are kept.
-- +goose Up
ALTER TABLE keys ADD COLUMN no_content INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE keys DROP COLUMN no_content;
