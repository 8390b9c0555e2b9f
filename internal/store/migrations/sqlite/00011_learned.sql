-- What was learned of external endpoints, in one row that is written over: what has the version of another program is not
-- read, and learned anew.
-- +goose Up
CREATE TABLE learned (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	version INTEGER NOT NULL,
	state   BLOB NOT NULL
);

-- +goose Down
DROP TABLE learned;
