-- Secrets of users. Nobody can read them without the product's keys, so the rows are changed and deleted in place.

-- name: secret
SELECT s.sealed, s.version FROM secrets AS s WHERE s.name = :name AND /*reached s*/;

-- name: add_secret
INSERT INTO secrets (name, scope_key, tenant, user_id, sealed, version, claimed_until)
VALUES (:name, :scope_key, :tenant, :user, :sealed, :version, 0)
ON CONFLICT DO NOTHING;

-- name: replace_secret
UPDATE secrets AS s SET sealed = :sealed, version = version + 1, claimed_until = 0
WHERE s.name = :name AND s.version = :version AND /*reached s*/;

-- name: claim_secret
UPDATE secrets AS s SET claimed_until = :until
WHERE s.name = :name AND s.version = :version AND s.claimed_until <= :now AND /*reached s*/;

-- name: delete_secret
DELETE FROM secrets AS s
WHERE s.name = :name AND (CAST(:version AS BIGINT) IS NULL OR s.version = :version) AND /*reached s*/;

-- name: forget_secrets
DELETE FROM secrets AS s WHERE /*reached s*/;
