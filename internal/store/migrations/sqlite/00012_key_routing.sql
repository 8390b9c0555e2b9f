-- What a key's time is worth, in thousandths (0: as configured), and whether its requests try no endpoint to know it.
-- +goose Up
ALTER TABLE keys ADD COLUMN kappa INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN no_explore INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE keys DROP COLUMN no_explore;
ALTER TABLE keys DROP COLUMN kappa;
