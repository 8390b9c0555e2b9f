-- What a key may use. models and providers are JSON lists, an empty one is all; early_headers is in milliseconds and
-- spend_limit in 10^-9 of the billing currency, 0 is none. The trigger keys_updated counts changes of these too.
-- +goose Up
ALTER TABLE keys ADD COLUMN models TEXT NOT NULL DEFAULT '[]';
ALTER TABLE keys ADD COLUMN providers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE keys ADD COLUMN local_only INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN early_headers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN spend_limit INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE keys DROP COLUMN spend_limit;
ALTER TABLE keys DROP COLUMN early_headers;
ALTER TABLE keys DROP COLUMN local_only;
ALTER TABLE keys DROP COLUMN providers;
ALTER TABLE keys DROP COLUMN models;
