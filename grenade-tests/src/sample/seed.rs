//! The first schema and its rows: deterministic, so that a client can know every seeded image without asking.
//!
//! Only version 1 makes a catalogue; later shapes come by migration.

use sha2::{Digest, Sha256};
use sqlx::QueryBuilder;

use crate::sample::database::{Database, DatabaseError, DatabaseUrl, on_either};
use crate::sample::image::{Audience, Image};

/// Rows in one statement: 1,000 × 7 values stay below SQLite's 32,766 and PostgreSQL's 65,535 parameters.
const CHUNK: u32 = 1000;
/// When the seeded rows were written, in unix milliseconds: a constant, for the sake of determinism.
const SEEDED_AT: i64 = 1_480_000_000_000;
/// The most rows that init makes.
pub const MOST_ROWS: u32 = 5_000_000;

const TABLES: [&str; 2] = [
    "CREATE TABLE images (id TEXT PRIMARY KEY, name TEXT NOT NULL, is_public BOOLEAN NOT NULL DEFAULT false, \
     size BIGINT NOT NULL, checksum TEXT NOT NULL, written_by INTEGER NOT NULL, updated_at BIGINT NOT NULL)",
    "CREATE TABLE image_members (image_id TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (image_id, member))",
];

/// The id of the `n`th seeded image. Greater than no id that begins with `a` to `r`, in every collation.
pub fn seed_id(n: u32) -> String {
    format!("seed-{n:08}")
}

/// The `n`th seeded image: every third is public, of the others every second has a member.
pub fn seed_image(n: u32) -> Image {
    let id = seed_id(n);
    let audience = match n % 6 {
        0 | 3 => Audience::Public,
        1 | 4 => Audience::Shared,
        _ => Audience::Private,
    };
    let checksum = hex::encode(Sha256::digest(id.as_bytes()));
    Image { name: format!("image {n}"), audience, size: i64::from(n) * 1024, checksum, written_by: 1, id }
}

/// Makes the tables of version 1 and `rows` images, in one transaction.
///
/// # Errors
/// When the database cannot be used, or holds a catalogue already; then nothing was changed.
pub async fn init(url: &DatabaseUrl, rows: u32) -> Result<(), DatabaseError> {
    let database = Database::create(url, "pantry-api/1/init").await?;
    let begin = database.begin_writing();
    let made = on_either!(&database, pool => async {
        let mut tx = pool.begin_with(begin).await?;
        for table in TABLES {
            sqlx::query(table).execute(&mut *tx).await?;
        }
        let mut first = 0;
        while first < rows {
            let last = rows.min(first + CHUNK);
            let images: Vec<Image> = (first..last).map(seed_image).collect();
            let mut insert = QueryBuilder::new(
                "INSERT INTO images (id, name, is_public, size, checksum, written_by, updated_at) ",
            );
            insert.push_values(&images, |mut row, image| {
                row.push_bind(image.id.clone())
                    .push_bind(image.name.clone())
                    .push_bind(image.audience == Audience::Public)
                    .push_bind(image.size)
                    .push_bind(image.checksum.clone())
                    .push_bind(image.written_by)
                    .push_bind(SEEDED_AT);
            });
            insert.build().execute(&mut *tx).await?;
            let shared: Vec<&Image> = images.iter().filter(|i| i.audience == Audience::Shared).collect();
            if !shared.is_empty() {
                let mut insert = QueryBuilder::new("INSERT INTO image_members (image_id, member) ");
                insert.push_values(shared, |mut row, image| {
                    row.push_bind(image.id.clone()).push_bind("seed-member".to_owned());
                });
                insert.build().execute(&mut *tx).await?;
            }
            first = last;
        }
        tx.commit().await
    }
    .await);
    database.close().await;
    made.map_err(|source| match &source {
        sqlx::Error::Database(refusal) if refusal.message().contains("already exists") => {
            DatabaseError::NotEmpty
        }
        _ => DatabaseError::Unusable { tried: "seed", source },
    })
}
