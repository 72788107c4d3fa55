//! HTTP GET with limits of time and size, each on its own connection: a kept connection would count among those of the
//! service's clients.

use crate::config::address::Url;
use crate::host::Host;
use crate::host::NoAnswer;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 256 * 1024;

/// Asks `url` and reads the whole answer within `limit`.
pub(crate) async fn get(
    host: &dyn Host,
    url: &Url,
    limit: Duration,
) -> Result<(StatusCode, Bytes), NoAnswer> {
    match tokio::time::timeout(limit, host.get(url)).await {
        Ok(answer) => answer,
        Err(_) => Err(NoAnswer::Late { url: url.to_string(), limit }),
    }
}

/// Asks `url` for a whole number: the answer itself, or what a JSON pointer finds in it.
pub(crate) async fn number(
    host: &dyn Host,
    url: &Url,
    pointer: Option<&str>,
    limit: Duration,
) -> Result<i64, NoAnswer> {
    let (status, body) = get(host, url, limit).await?;
    let url = url.to_string();
    match status {
        StatusCode::OK => parse_number(&body, pointer).map_err(|found| NoAnswer::NoNumber { url, found }),
        // It may be on its way up.
        status if status.is_server_error() => {
            Err(NoAnswer::Broken { url, found: format!("it answered {status}") })
        }
        status => Err(NoAnswer::NoNumber { url, found: format!("it answered {status}") }),
    }
}

/// Reads a whole number out of an answer.
pub(crate) fn parse_number(body: &[u8], pointer: Option<&str>) -> Result<i64, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8".to_owned())?;
    let shown = || text.chars().take(80).collect::<String>();
    let Some(pointer) = pointer else {
        return text.trim().parse().map_err(|_| format!("{:?} is not a whole number", shown()));
    };
    let json: serde_json::Value =
        serde_json::from_str(text).map_err(|_| format!("{:?} is not JSON", shown()))?;
    let found =
        json.pointer(pointer).ok_or_else(|| format!("there is nothing at {pointer} in {:?}", shown()))?;
    found.as_i64().ok_or_else(|| format!("{found} at {pointer} is not a whole number"))
}

/// Asks `url` over a connection of its own.
pub(crate) async fn ask(url: &Url) -> Result<(StatusCode, Bytes), NoAnswer> {
    let broken = |e: &dyn std::fmt::Display| NoAnswer::Broken { url: url.to_string(), found: e.to_string() };
    let stream = TcpStream::connect(&url.authority).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::ConnectionRefused => NoAnswer::Refused { url: url.to_string() },
        _ => broken(&e),
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
    let request = http::Request::get(&url.path)
        .header(http::header::HOST, &url.authority)
        .header(http::header::CONNECTION, "close")
        .header(http::header::USER_AGENT, "tidegate-agent")
        .body(Empty::<Bytes>::new())
        .map_err(|e| broken(&e))?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|e| broken(&e))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|e| broken(&e))?;
        Ok((head.status, body.to_bytes()))
    };
    // The connection is driven here and not in a task: dropping the future of the answer drops both.
    tokio::pin!(connection);
    tokio::pin!(answer);
    let mut driving = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            ended = &mut connection, if driving => {
                driving = false;
                if let Err(e) = ended {
                    return Err(broken(&e));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_whole_or_by_pointer() {
        assert_eq!(parse_number(b" 7\n", None), Ok(7));
        assert_eq!(parse_number(br#"{"a":{"b":3}}"#, Some("/a/b")), Ok(3));
        for (body, pointer) in
            [("x", None), ("1.5", None), (r#"{"a":"3"}"#, Some("/a")), ("{}", Some("/a")), ("{", Some("/a"))]
        {
            assert!(parse_number(body.as_bytes(), pointer).is_err(), "{body}");
        }
    }
}
