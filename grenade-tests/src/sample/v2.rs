//! Pantry 2: an image has a `visibility`: public, private, or shared (private with members).
//!
//! Works on the expanded schema and on the contracted one, because it never names the column that contract drops; on
//! the expanded one the sync triggers fill that column.
//!
//! A row whose visibility is still NULL was not migrated yet. This edition does not guess: it is not ready while one is
//! left (migrate runs before the roll), and should one appear later, it reads as shared or private by its members, which
//! never shows an image to more people than its owner said. `shared` is derived, never asked for: an image becomes
//! shared by its first member.

use serde_json::Value;

use crate::sample::edition::{Edition, Statements};

/// The second edition.
pub static EDITION: Edition = Edition {
    version: 2,
    release: "pantry-2.0.0",
    statements: Statements {
        insert: "INSERT INTO images (id, name, visibility, size, checksum, written_by, updated_at) \
                 VALUES ($1, $2, CASE WHEN $3 THEN 'public' ELSE 'private' END, $4, $5, $6, $7)",
        update: "UPDATE images SET name = $2, visibility = CASE WHEN $3 THEN 'public' \
                 WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = images.id) THEN 'shared' \
                 ELSE 'private' END, written_by = $4, updated_at = $5 WHERE id = $1",
        upload: "UPDATE images SET size = $2, checksum = $3, written_by = $4, updated_at = $5 WHERE id = $1",
        touch: "UPDATE images SET visibility = CASE WHEN visibility = 'private' THEN 'shared' ELSE visibility END, \
                written_by = $2, updated_at = $3 WHERE id = $1",
        read: "SELECT id, name, COALESCE(visibility, \
               CASE WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = images.id) THEN 'shared' \
               ELSE 'private' END) AS audience, size, checksum, written_by FROM images WHERE id = $1",
        list: "SELECT id, name, COALESCE(visibility, \
               CASE WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = images.id) THEN 'shared' \
               ELSE 'private' END) AS audience, size, checksum, written_by FROM images \
               WHERE id > $1 ORDER BY id LIMIT $2",
        unready: "SELECT COUNT(*) FROM (SELECT id FROM images WHERE visibility IS NULL LIMIT 1) AS unfilled",
        unready_means: "rows without a visibility: migrate has not finished",
    },
    own_field: |audience| ("visibility", Value::String(audience.as_str().to_owned())),
    own_audience: |body| match body.get("visibility") {
        None => Ok(None),
        Some(Value::String(word)) if word == "public" => Ok(Some(true)),
        Some(Value::String(word)) if word == "private" => Ok(Some(false)),
        Some(other) => Err(format!(
            "`visibility` is {other}; \"public\" or \"private\" is allowed (an image becomes shared by its first member)"
        )),
    },
    own_field_name: "visibility",
};
