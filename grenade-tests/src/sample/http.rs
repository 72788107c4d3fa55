//! The catalogue over HTTP. Only translates: parses at the border, asks the store, words the answer.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post, put};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::sample::edition::Edition;
use crate::sample::image::{ImageRequest, Malformed, parse_id};
use crate::sample::store::{Store, StoreError};

/// The largest JSON body, in bytes.
const LARGEST_REQUEST: usize = 64 << 10;
/// The largest file of an image, in bytes.
const LARGEST_FILE: u64 = 64 << 20;
/// A body that brings nothing for so long is dropped.
const BODY_SILENCE: Duration = Duration::from_secs(30);
/// Images in one page, and the most that may be asked for.
const PAGE: i64 = 25;
const LARGEST_PAGE: i64 = 1000;

/// What the catalogue's routes need.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// The rows.
    pub store: Store,
    /// How an image is worded.
    pub edition: &'static Edition,
}

/// The catalogue's routes.
pub fn routes(catalogue: Catalogue) -> Router {
    Router::new()
        .route("/images", post(create).get(list))
        .route("/images/{id}", get(read).put(update))
        .route("/images/{id}/file", put(upload))
        .route("/images/{id}/members/{member}", put(add_member))
        .with_state(catalogue)
}

/// A refusal: a status and a sentence.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self(StatusCode::BAD_REQUEST, malformed.0)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Missing(_) => StatusCode::NOT_FOUND,
            StoreError::Exists(_) => StatusCode::CONFLICT,
            StoreError::Corrupt { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            StoreError::Database { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        // Tests print the answer, and the cause must be in it: this is no service for strangers.
        let text = match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        if status.is_server_error() {
            tracing::warn!(error = text, "request failed");
        }
        Self(status, text)
    }
}

async fn image_request(body: Body, edition: &Edition) -> Result<ImageRequest, Refusal> {
    match tokio::time::timeout(BODY_SILENCE, to_bytes(body, LARGEST_REQUEST)).await {
        Ok(Ok(bytes)) => Ok(ImageRequest::parse(&bytes, edition)?),
        Ok(Err(e)) => Err(Refusal(
            StatusCode::BAD_REQUEST,
            format!("the body could not be read: {e}; at most {LARGEST_REQUEST} bytes are allowed"),
        )),
        Err(_) => Err(silent()),
    }
}

fn silent() -> Refusal {
    let seconds = BODY_SILENCE.as_secs();
    Refusal(StatusCode::REQUEST_TIMEOUT, format!("the body brought nothing for {seconds} seconds"))
}

async fn answer(
    catalogue: &Catalogue,
    status: StatusCode,
    id: &str,
) -> Result<(StatusCode, Json<serde_json::Value>), Refusal> {
    let image = catalogue.store.read(id).await?;
    Ok((status, Json(image.to_json(catalogue.edition))))
}

async fn create(State(catalogue): State<Catalogue>, body: Body) -> Result<impl IntoResponse, Refusal> {
    let request = image_request(body, catalogue.edition).await?;
    let id = request.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    catalogue.store.create(&id, &request).await?;
    answer(&catalogue, StatusCode::CREATED, &id).await
}

async fn read(
    State(catalogue): State<Catalogue>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, Refusal> {
    answer(&catalogue, StatusCode::OK, &parse_id(&id)?).await
}

async fn update(
    State(catalogue): State<Catalogue>,
    Path(id): Path<String>,
    body: Body,
) -> Result<impl IntoResponse, Refusal> {
    let id = parse_id(&id)?;
    let request = image_request(body, catalogue.edition).await?;
    if request.id.as_ref().is_some_and(|named| *named != id) {
        return Err(Malformed("`id` in the body is not the one in the path".to_owned()).into());
    }
    catalogue.store.update(&id, &request).await?;
    answer(&catalogue, StatusCode::OK, &id).await
}

async fn add_member(
    State(catalogue): State<Catalogue>,
    Path((id, member)): Path<(String, String)>,
) -> Result<impl IntoResponse, Refusal> {
    let (id, member) = (parse_id(&id)?, parse_id(&member)?);
    catalogue.store.add_member(&id, &member).await?;
    answer(&catalogue, StatusCode::OK, &id).await
}

/// Streams the file through the digest; nothing is written before its last byte.
async fn upload(
    State(catalogue): State<Catalogue>,
    Path(id): Path<String>,
    mut body: Body,
) -> Result<impl IntoResponse, Refusal> {
    let id = parse_id(&id)?;
    let (mut digest, mut size) = (Sha256::new(), 0_u64);
    while let Some(frame) = tokio::time::timeout(BODY_SILENCE, body.frame()).await.map_err(|_| silent())? {
        let frame = frame
            .map_err(|e| Refusal(StatusCode::BAD_REQUEST, format!("the file ended before its time: {e}")))?;
        let Some(data) = frame.data_ref() else { continue };
        size += data.len() as u64;
        if size > LARGEST_FILE {
            let sentence = format!("the file is larger than {LARGEST_FILE} bytes, the largest allowed");
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, sentence));
        }
        digest.update(data);
    }
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    catalogue.store.upload(&id, size, &hex::encode(digest.finalize())).await?;
    answer(&catalogue, StatusCode::OK, &id).await
}

#[derive(Debug, Deserialize)]
struct Page {
    limit: Option<String>,
    marker: Option<String>,
}

async fn list(
    State(catalogue): State<Catalogue>,
    Query(page): Query<Page>,
) -> Result<impl IntoResponse, Refusal> {
    let limit = match &page.limit {
        None => PAGE,
        Some(text) => {
            text.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit)).ok_or_else(|| {
                let shown: String = text.chars().take(40).collect();
                Malformed(format!("`limit` is `{shown}`; 1 to {LARGEST_PAGE} is allowed"))
            })?
        }
    };
    let marker = page.marker.as_deref().map(parse_id).transpose()?.unwrap_or_default();
    let images = catalogue.store.list(&marker, limit).await?;
    let full = i64::try_from(images.len()).is_ok_and(|n| n == limit);
    let next = images.last().filter(|_| full).map(|image| image.id.clone());
    let images: Vec<_> = images.iter().map(|image| image.to_json(catalogue.edition)).collect();
    Ok(Json(json!({"images": images, "next": next})))
}
