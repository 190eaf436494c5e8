-- Why:   a function's names are looked up along the caller's search_path, so a producer could put types,
--        operators and functions of its own before the server's, and insert what cannot be sent. All names are
--        given in full here; SET search_path on the function costs more at each call. Escapes are written so
--        that standard_conforming_strings does not matter. The rules are the same. Serves programs for version 1.
-- Locks: the function in the catalogue, and the one row of state.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

CREATE OR REPLACE FUNCTION webhook.event_can_be_sent(
    merchant_id pg_catalog.text,
    type pg_catalog.text,
    created_at pg_catalog.timestamptz,
    object pg_catalog.json
) RETURNS pg_catalog.bool
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    broken pg_catalog.text;
BEGIN
    IF
        pg_catalog.length(merchant_id) OPERATOR(pg_catalog.<) 1
        OR pg_catalog.length(merchant_id) OPERATOR(pg_catalog.>) 128
        OR merchant_id OPERATOR(pg_catalog.~)
        E'[\\u0001-\\u001f\\u007f-\\u00a0\\u00ad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff0-\\uffff]'
        -- Fails by itself for bytes that are no text, which a database in SQL_ASCII stores and nobody can read.
        OR pg_catalog.convert_to(merchant_id, 'UTF8') IS NULL
    THEN
        broken := 'merchant_id_has_1_to_128_printable_characters';
    ELSIF type OPERATOR(pg_catalog.<>) ALL (ARRAY[
        'charge.created', 'charge.succeeded', 'charge.failed', 'charge.reversed',
        'charge.split_completed', 'charge.split_failed',
        'charge.fiscal_registered', 'charge.fiscal_failed', 'webhook.test'
    ]::pg_catalog.text[]) THEN
        broken := 'type_is_one_of_the_published_event_types';
    ELSIF
        created_at OPERATOR(pg_catalog.<) '2000-01-01 00:00:00+00'
        OR created_at OPERATOR(pg_catalog.>=) '2100-01-01 00:00:00+00'
    THEN
        broken := 'created_at_is_between_the_years_2000_and_2100';
    ELSIF pg_catalog.json_typeof(object) OPERATOR(pg_catalog.<>) 'object' THEN
        broken := 'object_is_a_json_object';
    ELSIF pg_catalog.octet_length(object::pg_catalog.text) OPERATOR(pg_catalog.>) 262144 THEN
        broken := 'object_has_at_most_256_kib';
    ELSE
        RETURN true;
    END IF;
    RAISE check_violation USING
        MESSAGE = pg_catalog.format('an event for webhook.outbox breaks the rule "%s"', broken),
        SCHEMA = 'webhook', TABLE = 'outbox', CONSTRAINT = broken;
END
$$;

UPDATE webhook.state SET schema_version = 4;
