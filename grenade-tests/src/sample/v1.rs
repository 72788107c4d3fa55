//! Pantry 1: an image is public or it is not (`is_public`); members make a private image shared.
//!
//! Never names a column or a word that came after it.

use serde_json::Value;

use crate::sample::edition::{Edition, Statements};
use crate::sample::image::Audience;

/// The first edition.
pub static EDITION: Edition = Edition {
    version: 1,
    release: "pantry-1.0.0",
    statements: Statements {
        insert: "INSERT INTO images (id, name, is_public, size, checksum, written_by, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
        update: "UPDATE images SET name = $2, is_public = $3, written_by = $4, updated_at = $5 WHERE id = $1",
        upload: "UPDATE images SET size = $2, checksum = $3, written_by = $4, updated_at = $5 WHERE id = $1",
        touch: "UPDATE images SET written_by = $2, updated_at = $3 WHERE id = $1",
        read: "SELECT id, name, CASE WHEN is_public THEN 'public' \
               WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = images.id) THEN 'shared' \
               ELSE 'private' END AS audience, size, checksum, written_by FROM images WHERE id = $1",
        list: "SELECT id, name, CASE WHEN is_public THEN 'public' \
               WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = images.id) THEN 'shared' \
               ELSE 'private' END AS audience, size, checksum, written_by FROM images \
               WHERE id > $1 ORDER BY id LIMIT $2",
        unready: "SELECT COUNT(*) FROM images WHERE id = '' AND is_public",
        unready_means: "an image without an id",
    },
    own_field: |audience| ("is_public", Value::Bool(audience == Audience::Public)),
    own_audience: |body| match body.get("is_public") {
        None => Ok(None),
        Some(Value::Bool(public)) => Ok(Some(*public)),
        Some(other) => Err(format!("`is_public` is {other}; true or false is allowed")),
    },
    own_field_name: "is_public",
};
