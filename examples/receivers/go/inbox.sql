CREATE TABLE inbox (
    n bigint GENERATED ALWAYS AS IDENTITY,
    id text PRIMARY KEY,
    body json NOT NULL,
    is_done boolean NOT NULL DEFAULT false
);
CREATE INDEX inbox_to_do ON inbox (n) WHERE NOT is_done;
