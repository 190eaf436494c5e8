-- What the examples beside this file change. Your own table stays as it is.
CREATE TABLE charge (id text PRIMARY KEY, merchant_id text NOT NULL, status text NOT NULL);
INSERT INTO charge VALUES ('ch_1', 'merchant-1', 'created');
GRANT SELECT, UPDATE ON charge TO webhook_producer;
