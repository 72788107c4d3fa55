//! The catalogue's reads and writes. A write is done when its transaction is committed, and not before.

use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;

use crate::sample::database::{Database, on_either};
use crate::sample::edition::Edition;
use crate::sample::image::{Audience, Image, ImageRequest};

/// Why the catalogue could not do what was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// No such image.
    #[error("there is no image `{0}`")]
    Missing(String),
    /// Creating an image that is already there.
    #[error("there is an image `{0}` already")]
    Exists(String),
    /// A stored row says what no edition writes.
    #[error("image `{id}` holds the audience `{found}`; public, private or shared is allowed")]
    Corrupt {
        /// Which image.
        id: String,
        /// What it holds.
        found: String,
    },
    /// The database did not answer or refused.
    #[error("the database could not {tried}")]
    Database {
        /// What was tried.
        tried: &'static str,
        /// The error of the driver.
        #[source]
        source: sqlx::Error,
    },
}

fn failed(tried: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |source| StoreError::Database { tried, source }
}

type Row = (String, String, String, i64, String, i32);

fn image(row: Row) -> Result<Image, StoreError> {
    let (id, name, audience, size, checksum, written_by) = row;
    match Audience::parse(&audience) {
        Some(audience) => Ok(Image { id, name, audience, size, checksum, written_by }),
        None => Err(StoreError::Corrupt { id, found: audience }),
    }
}

/// Milliseconds since 1970, for the column `updated_at`.
pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The catalogue as one edition sees it.
#[derive(Debug, Clone)]
pub struct Store {
    database: Database,
    edition: &'static Edition,
}

impl Store {
    /// The catalogue in `database`, spoken to in the edition's statements.
    pub fn new(database: Database, edition: &'static Edition) -> Self {
        Self { database, edition }
    }

    fn version(&self) -> i32 {
        i32::try_from(self.edition.version).unwrap_or(i32::MAX)
    }

    /// How many reasons the schema gives not to serve yet; 0 is good.
    pub async fn unready(&self) -> Result<i64, StoreError> {
        on_either!(&self.database, pool => {
            sqlx::query_scalar::<_, i64>(self.edition.statements.unready).fetch_one(pool).await
        })
        .map_err(failed("be asked whether it is ready"))
    }

    /// One image.
    pub async fn read(&self, id: &str) -> Result<Image, StoreError> {
        let row: Option<Row> = on_either!(&self.database, pool => {
            sqlx::query_as(self.edition.statements.read).bind(id).fetch_optional(pool).await
        })
        .map_err(failed("read an image"))?;
        row.map_or_else(|| Err(StoreError::Missing(id.to_owned())), image)
    }

    /// Up to `limit` images whose id is greater than `marker`, in order of id.
    pub async fn list(&self, marker: &str, limit: i64) -> Result<Vec<Image>, StoreError> {
        let rows: Vec<Row> = on_either!(&self.database, pool => {
            sqlx::query_as(self.edition.statements.list).bind(marker).bind(limit).fetch_all(pool).await
        })
        .map_err(failed("list images"))?;
        rows.into_iter().map(image).collect()
    }

    /// Stores a new image without a file.
    pub async fn create(&self, id: &str, request: &ImageRequest) -> Result<(), StoreError> {
        let begin = self.database.begin_writing();
        let made = on_either!(&self.database, pool => async {
            let mut tx = pool.begin_with(begin).await?;
            sqlx::query(self.edition.statements.insert)
                .bind(id)
                .bind(&request.name)
                .bind(request.public)
                .bind(0_i64)
                .bind("")
                .bind(self.version())
                .bind(unix_ms())
                .execute(&mut *tx)
                .await?;
            tx.commit().await
        }
        .await);
        match made {
            Err(sqlx::Error::Database(refusal)) if refusal.is_unique_violation() => {
                Err(StoreError::Exists(id.to_owned()))
            }
            other => other.map_err(failed("store an image")),
        }
    }

    /// Renames an image and sets again whether every caller may see it.
    pub async fn update(&self, id: &str, request: &ImageRequest) -> Result<(), StoreError> {
        let begin = self.database.begin_writing();
        let rows = on_either!(&self.database, pool => async {
            let mut tx = pool.begin_with(begin).await?;
            let done = sqlx::query(self.edition.statements.update)
                .bind(id)
                .bind(&request.name)
                .bind(request.public)
                .bind(self.version())
                .bind(unix_ms())
                .execute(&mut *tx)
                .await?;
            tx.commit().await.map(|()| done.rows_affected())
        }
        .await)
        .map_err(failed("update an image"))?;
        found(rows, id)
    }

    /// Records the file of an image: its bytes and its sha256 in hex.
    pub async fn upload(&self, id: &str, size: i64, checksum: &str) -> Result<(), StoreError> {
        let begin = self.database.begin_writing();
        let rows = on_either!(&self.database, pool => async {
            let mut tx = pool.begin_with(begin).await?;
            let done = sqlx::query(self.edition.statements.upload)
                .bind(id)
                .bind(size)
                .bind(checksum)
                .bind(self.version())
                .bind(unix_ms())
                .execute(&mut *tx)
                .await?;
            tx.commit().await.map(|()| done.rows_affected())
        }
        .await)
        .map_err(failed("record an upload"))?;
        found(rows, id)
    }

    /// Makes `member` a member of the image; twice is once.
    pub async fn add_member(&self, id: &str, member: &str) -> Result<(), StoreError> {
        let begin = self.database.begin_writing();
        let rows = on_either!(&self.database, pool => async {
            let mut tx = pool.begin_with(begin).await?;
            let done = sqlx::query(self.edition.statements.touch)
                .bind(id)
                .bind(self.version())
                .bind(unix_ms())
                .execute(&mut *tx)
                .await?;
            if done.rows_affected() == 1 {
                sqlx::query("INSERT INTO image_members (image_id, member) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                    .bind(id)
                    .bind(member)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await.map(|()| done.rows_affected())
        }
        .await)
        .map_err(failed("add a member"))?;
        found(rows, id)
    }

    /// Ends all connections in good order.
    pub async fn close(&self) {
        self.database.close().await;
    }
}

fn found(rows: u64, id: &str) -> Result<(), StoreError> {
    if rows == 1 { Ok(()) } else { Err(StoreError::Missing(id.to_owned())) }
}
