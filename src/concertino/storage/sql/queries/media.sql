-- Contents of media (see schema.sql).

-- name: add_content
INSERT INTO media (scope_key, digest, body) SELECT scope_key, :digest, :body FROM runs WHERE number = :run
ON CONFLICT (scope_key, digest) DO NOTHING
RETURNING number;

-- name: set_content
UPDATE media SET body = ? WHERE number = ?;

-- name: link_content
INSERT INTO media_of_runs (run, media)
SELECT r.number, m.number FROM runs AS r JOIN media AS m ON m.scope_key = r.scope_key
WHERE r.number = :run AND m.digest = :digest
ON CONFLICT (run, media) DO NOTHING;

-- name: contents_of_run
SELECT m.digest, m.body FROM media_of_runs AS l JOIN media AS m ON m.number = l.media WHERE l.run = ?;

-- name: contents_of_outcome
SELECT m.digest, m.body FROM media_of_runs AS l JOIN media AS m ON m.number = l.media
WHERE l.run = ? AND m.digest IN (SELECT value FROM json_each(?));

-- name: unlink_contents
-- Those that no message, event or open operation of the run names any more, and with :shared no text that runs share
-- either.
DELETE FROM media_of_runs WHERE run = :run AND (CAST(:digests AS text) IS NULL OR EXISTS (
    SELECT 1 FROM media AS m WHERE m.number = media_of_runs.media
    AND m.digest IN (SELECT value FROM json_each(:digests))
)) AND NOT EXISTS (
    SELECT 1 FROM operations AS o JOIN outcomes AS c ON c.number = o.outcome
    JOIN media AS m ON m.number = media_of_runs.media
    WHERE o.root = (SELECT root FROM heads WHERE run = :run) AND o.run = :run AND instr(c.content, m.digest)
) AND NOT EXISTS (
    SELECT 1 FROM messages AS s JOIN media AS m ON m.number = media_of_runs.media
    WHERE s.run = :run AND instr(s.body, m.digest)
) AND NOT EXISTS (
    SELECT 1 FROM events AS e JOIN media AS m ON m.number = media_of_runs.media
    WHERE e.run = :run AND instr(e.body, '"data_digest":"' || m.digest)
) AND NOT (:shared AND EXISTS (
    SELECT 1 FROM texts AS t JOIN media AS m ON m.number = media_of_runs.media
    WHERE t.scope_key = m.scope_key AND instr(t.body, m.digest)
))
RETURNING media;

-- name: erase_content_of
UPDATE media SET digest = NULL, scope_key = NULL, body = ''
WHERE number = :media AND NOT EXISTS (SELECT 1 FROM media_of_runs WHERE media = :media);
