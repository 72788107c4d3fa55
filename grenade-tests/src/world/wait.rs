//! Waits for a level, with a time limit; its error says what was there instead.

use std::time::Duration;

use tokio::time::Instant;

use crate::world::WorldError;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks `probe` until it answers `Ok`, or `limit` has passed; then the error holds the last `Err`.
///
/// # Errors
/// [`WorldError::Late`].
pub async fn wait_for<T, P, F>(what: &str, limit: Duration, mut probe: P) -> Result<T, WorldError>
where
    P: FnMut() -> F,
    F: Future<Output = Result<T, String>>,
{
    let end = Instant::now() + limit;
    let mut seen = "nothing".to_owned();
    loop {
        let asked = Instant::now();
        match tokio::time::timeout_at(end, probe()).await {
            Ok(Ok(there)) => return Ok(there),
            Ok(Err(instead)) => seen = instead,
            Err(_) => {
                let unanswered = asked.elapsed().as_secs_f64();
                if unanswered > 1.0 {
                    seen = format!("no answer for {unanswered:.1} s (before that: {seen})");
                }
                return Err(WorldError::Late { what: what.to_owned(), limit, seen });
            }
        }
        if Instant::now() + LOOK_EVERY > end {
            return Err(WorldError::Late { what: what.to_owned(), limit, seen });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Asks an HTTP path until it answers 200; answers the body.
///
/// # Errors
/// [`WorldError::Late`], with the last status and text.
pub async fn wait_for_200(
    what: &str,
    limit: Duration,
    address: std::net::SocketAddr,
    path: &str,
) -> Result<String, WorldError> {
    wait_for(what, limit, || async move {
        match get(address, path).await {
            Ok((200, body)) => Ok(body),
            Ok((status, body)) => Err(format!("{status} {body}")),
            Err(e) => Err(e),
        }
    })
    .await
}

/// One GET: status and body.
///
/// # Errors
/// What went wrong, in words.
pub async fn get(address: std::net::SocketAddr, path: &str) -> Result<(u16, String), String> {
    let answer = crate::load::wire::send(address, http::Method::GET, path, crate::load::wire::nothing())
        .await
        .map_err(|e| e.to_string())?;
    Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
}
