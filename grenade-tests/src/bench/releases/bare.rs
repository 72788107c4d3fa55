//! What a start decision is held against: an axum handler that answers as much and decides nothing.

use std::net::SocketAddr;

use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// Where it answers.
pub const PATH: &str = "/start?compute_id=ep-";

#[derive(Deserialize)]
struct Asked {
    compute_id: String,
}

#[derive(Serialize)]
struct Answer {
    compute_id: String,
    revision: u64,
    version: u64,
    tag: &'static str,
    because: &'static str,
}

async fn answer(Query(Asked { compute_id }): Query<Asked>) -> Json<Answer> {
    Json(Answer { compute_id, revision: 10_050, version: 10_050, tag: "release-10050", because: "deployed" })
}

/// Answers until it is ended.
///
/// # Errors
/// When the address cannot be listened at.
pub async fn serve(listen: SocketAddr) -> std::io::Result<()> {
    let router = Router::new().route("/start", get(answer));
    axum::serve(TcpListener::bind(listen).await?, router).await
}
