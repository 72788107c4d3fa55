//! Asks each server's health URL, over and over. Only 2xx and 3xx pass, as HAProxy has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use crate::balancer::health::Change;
use crate::balancer::server::{LastCheck, Server};

/// How a health check is done.
#[derive(Debug, Clone)]
pub struct CheckPlan {
    /// From the beginning of one check to that of the next.
    pub interval: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// The path that is asked.
    pub path: String,
}

/// Checks one server until the task is dropped.
pub async fn keep_checking(server: Arc<Server>, plan: CheckPlan) {
    let mut ticks = tokio::time::interval(plan.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let began = Instant::now();
        let (passed, status, code) =
            match tokio::time::timeout(plan.timeout, ask(server.at.check, &plan.path)).await {
                Err(_) => (false, "L7TOUT", None),
                Ok(Err(Unanswered::Connect)) => (false, "L4CON", None),
                Ok(Err(Unanswered::Response)) => (false, "L7RSP", None),
                Ok(Ok(code)) if (200..400).contains(&code) => (true, "L7OK", Some(code)),
                Ok(Ok(code)) => (false, "L7STS", Some(code)),
            };
        let last = LastCheck { status, code, duration: began.elapsed() };
        match server.observe(passed, last) {
            Change::None => {}
            Change::WentUp => tracing::info!(server = server.at.name, "up"),
            Change::WentDown => tracing::info!(server = server.at.name, status, code, "down"),
        }
    }
}

enum Unanswered {
    Connect,
    Response,
}

async fn ask(address: SocketAddr, path: &str) -> Result<u16, Unanswered> {
    let stream = TcpStream::connect(address).await.map_err(|_| Unanswered::Connect)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Unanswered::Response)?;
    let request = Request::get(path)
        .header(header::HOST, address.to_string())
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|_| Unanswered::Response)?;
    // Dropping the sender ends the connection, also when this check runs out of its time.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|_| Unanswered::Response)?;
    Ok(answer.status().as_u16())
}
