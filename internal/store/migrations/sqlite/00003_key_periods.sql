-- Limits of keys by period. limit_reset is "", daily, weekly or monthly; external_limit is in 10^-9 of the billing currency,
-- 0 is none; currency is that in which the key's amounts are shown, "" as configured.
-- +goose Up
ALTER TABLE keys ADD COLUMN limit_reset TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN external_limit INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN currency TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keys DROP COLUMN currency;
ALTER TABLE keys DROP COLUMN external_limit;
ALTER TABLE keys DROP COLUMN limit_reset;
