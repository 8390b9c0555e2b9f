-- Whose requests are served first where several wait for a slot: '' is interactive, or batch.
-- +goose Up
ALTER TABLE keys ADD COLUMN class TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keys DROP COLUMN class;
